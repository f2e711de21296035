"""The agent with a real API server: what changes there arrives, what is wrong there is told, and
what it does is shown there. The kubelet's tree is a bed of real cgroups."""

import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.objects_checkpoint import FILE as CHECKPOINT
from tests.cluster.agent_process import eventually
from tests.cluster.agent_stage import CPUS, SLACK, USER, Stage, allowed, config_map
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane


@pytest.fixture
def bed() -> Iterator[Bed]:
    made = Bed(KERNELS[kernel_name()][0], f"cluster-{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, bed: Bed, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(control_plane, namespace, bed, tmp_path)
    yield made
    made.close()
    control_plane.kubectl("delete", "node", made.node)


def test_changes_arrive_while_it_runs(stage: Stage) -> None:
    """Node and ConfigMap: threshold, allocatable and label, each without a restart."""
    stage.throttle(80)
    agent = stage.start()
    stage.wait_for_share(80)
    stage.throttle(50)
    stage.wait_for_share(50)
    stage.allocate(32)
    stage.wait_for_share(50, 32)
    stage.label("volcano.sh/oversubscription=false")
    eventually("the release", lambda: stage.quota() is None)
    stage.label("volcano.sh/oversubscription=true")
    stage.wait_for_share(50, 32)
    assert agent.get("/readyz") == {"ok": True}


def test_our_own_settings_come_from_a_config_map(stage: Stage) -> None:
    spec = "spec: {bestEffortShare: {enabled: true, threshold: %d}, agent: {period: 500ms}}"
    head = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"

    def put(threshold: int) -> None:
        data = {"settings.yaml": f"{head}{spec % threshold}\n"}
        stage.plane.apply(config_map("slackwater-agent", stage.namespace, data))

    put(60)
    agent = stage.start()
    stage.wait_for_share(60)
    put(400)
    told = eventually("the complaint", lambda: agent.get("/readyz").get("problems"))
    title = f"ConfigMap {stage.namespace}/slackwater-agent"
    wanted = "but must be a whole number, 1 % to 100 %; its last valid content stays in force"
    assert told == [f"{title}: spec.bestEffortShare.threshold is 400, {wanted}"]
    stage.wait_for_share(60)
    stage.plane.kubectl("delete", "configmap", "slackwater-agent", "-n", stage.namespace)
    eventually("the release", lambda: stage.quota() is None)
    assert agent.get("/readyz") == {"ok": True}


def test_bad_configuration_is_told_where_people_look(stage: Stage) -> None:
    """Broken JSON: the last good one stays, the sentence is an event on the ConfigMap and on the
    Node, a metric, and in explain; then all is good again."""
    stage.throttle(80)
    agent = stage.start()
    stage.wait_for_share(80)
    stage.configure('{"globalConfig": {"cpuThrottlingConfig": {"enable": tru')
    [problem] = eventually("the complaint", lambda: agent.get("/readyz").get("problems"))
    title = f"ConfigMap {stage.namespace}/volcano-agent-configuration"
    assert problem.startswith(f"{title} is ")
    assert problem.endswith("; its last valid content stays in force")
    told = eventually(
        "both events", lambda: len(found := stage.events("ConfigApplyFailed")) == 2 and found
    )
    about = {each["involvedObject"]["kind"]: each for each in told}
    assert {each["type"] for each in told} == {"Warning"}
    assert about["Node"]["message"] == problem
    described = stage.plane.kubectl(
        "describe", "configmap", "volcano-agent-configuration", "-n", stage.namespace
    )
    assert "ConfigApplyFailed" in described
    assert "slackwater_configuration_problems 1.0" in agent.get("/metrics")
    rows = agent.get("/v1/explain")
    assert any(problem in remark for row in rows for remark in row["remarks"])
    stage.wait_for_share(80)
    stage.throttle(50)
    stage.wait_for_share(50)
    eventually("all is good again", lambda: stage.events("ConfigApplySuccess"))


def test_configuration_that_is_bad_from_the_start_says_what_it_said_before(stage: Stage) -> None:
    stage.throttle(80)
    eventually("what is saved", (stage.start().state / CHECKPOINT).exists)
    stage.wait_for_share(80)
    stage.agents.pop().kill()
    stage.throttle(400)
    agent = stage.start()
    [problem] = eventually("the complaint", lambda: agent.get("/readyz").get("problems"))
    assert "cpuThrottlingThreshold is 400, but must be" in problem
    assert problem.endswith("what was set before stays")
    assert agent.get("/readyz")["ok"] is True
    stage.wait_for_share(80)
    stage.allocate(CPUS // 2)
    stage.wait_for_share(80, CPUS // 2)
    stage.throttle(50)
    stage.wait_for_share(50, CPUS // 2)


def test_configuration_that_was_never_good_holds_what_was_set(stage: Stage) -> None:
    """Nothing good is known: what an earlier run set stays, until there is."""
    stage.throttle(80)
    state = stage.start().state
    stage.wait_for_share(80)
    before = stage.quota()
    stage.agents.pop().kill()
    (state / CHECKPOINT).unlink(missing_ok=True)
    stage.throttle(400)
    agent = stage.start()
    reason = "cpuThrottlingThreshold is 400, but must be"
    told = eventually("it", lambda: reason in (s := agent.get("/readyz")).get("because", "") and s)
    assert told["ok"] is False
    assert stage.quota() == before
    eventually("the event", lambda: len(stage.events("ConfigApplyFailed")) == 2)
    stage.throttle(50)
    stage.wait_for_share(50)


def test_pods_come_and_go(stage: Stage) -> None:
    agent = stage.start()
    stage.throttle(80)
    name = f"{stage.namespace}/web"
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "250m"}}}
    spec = {"nodeName": stage.node, "containers": [container]}
    metadata = {"name": "web", "namespace": stage.namespace}
    stage.plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def seen() -> dict[str, Any]:
        pods = {f"{pod['namespace']}/{pod['name']}": pod for pod in agent.get("/v1/top")["pods"]}
        return pods.get(name) or {}

    assert eventually("the pod", seen)["request"] == 250
    uid = stage.plane.get("pod", "web", "-n", stage.namespace)["metadata"]["uid"]
    stage.bed.make(f"{stage.bed.kubepods}/burstable/pod{uid}")
    assert eventually("its group", lambda: (row := seen()).get("usage") is not None and row)
    stage.plane.kubectl("delete", "pod", "web", "-n", stage.namespace, "--force")
    eventually("its end", lambda: not seen())


def test_the_node_shows_what_is_done_and_since_when(stage: Stage) -> None:
    stage.throttle(80)
    stage.start()
    stage.wait_for_share(80)
    report = eventually("the report", lambda: (seen := stage.report()).get("holding") and seen)
    assert report["holding"] == 1
    assert report["period"] == "1s"
    assert report["policies"]["best_effort_share"] == "on"
    assert report["policies"]["quota_burst"].startswith("off: neither")
    assert report["problems"] == []
    shown = int(report["bestEffort"]["quota"].removesuffix("m"))
    assert allowed(80) - SLACK <= shown <= allowed(80)
    condition = stage.condition()
    assert (condition["status"], condition["reason"]) == ("True", "Acting")
    assert condition["message"] == "values are held by best_effort_share"
    [event] = stage.events("NodeCPUThrottle")
    assert event["involvedObject"]["name"] == stage.node
    assert event["message"].startswith("best-effort work may use ")
    described = stage.plane.kubectl("describe", "node", stage.node)
    assert "NodeCPUThrottle" in described
    assert "SlackwaterActing" in described


def test_one_decision_and_a_dry_run_end_by_themselves(stage: Stage) -> None:
    stage.throttle(80)
    dry = stage.begin("--dry-run")
    eventually("the plan", lambda: any("planned" in x.get("result", "") for x in dry.lines()))
    assert dry.end() == 0
    assert stage.quota() is None
    assert stage.report() == {}
    assert stage.events("NodeCPUThrottle") == []
    once = stage.begin("--once")
    assert once.wait() == 0
    assert stage.quota() is not None


def pod_object(stage: Stage, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "odd", "namespace": stage.namespace, "annotations": annotations}
    spec = {"nodeName": stage.node, "containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_pods_absurd_annotation_is_told_on_the_pod(stage: Stage) -> None:
    stage.configure('{"globalConfig": {"cpuBurstConfig": {"enable": true}}}')
    absurd = {"volcano.sh/enable-quota-burst": "true", "volcano.sh/quota-burst-time": "-5 bananas"}
    stage.plane.apply(pod_object(stage, **absurd))
    agent = stage.start()
    [event] = eventually("the event", lambda: stage.events("OptionIgnored"))
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "odd")
    assert "volcano.sh/quota-burst-time" in event["message"]
    assert "'-5 bananas'" in event["message"]
    described = stage.plane.kubectl("describe", "pod", "odd", "-n", stage.namespace)
    assert "OptionIgnored" in described
    assert agent.get("/readyz")["ok"] is True


def test_a_pod_that_cannot_be_read_is_told_and_the_others_go_on(stage: Stage) -> None:
    """The uid in a mirror pod's annotation is a path."""
    stage.throttle(80)
    stage.plane.apply(pod_object(stage, **{"kubernetes.io/config.mirror": "../../../etc"}))
    agent = stage.start()
    stage.wait_for_share(80)
    [event] = eventually("the event", lambda: stage.events("PodUnreadable"))
    assert event["involvedObject"]["name"] == "odd"
    [problem] = agent.get("/readyz")["problems"]
    assert problem == event["message"]
    assert f"Pod {stage.namespace}/odd: metadata.annotations" in problem


def test_however_much_changes_the_node_is_written_once_a_minute(stage: Stage) -> None:
    """By the API server's own audit log; and nothing but the Node's status and events, and once
    the node's topology, where the cluster knows that kind."""
    stage.throttle(80)
    stage.start()
    stage.wait_for_share(80)
    eventually("the report", stage.report)
    for threshold in (20, 80, 20, 80, 20):
        stage.throttle(threshold)
        stage.wait_for_share(threshold)
    audited = [
        each
        for each in stage.plane.audit()
        if each["user"].get("username") == USER
        and each["verb"] not in ("get", "list", "watch")
        and stage.node in (each["objectRef"].get("name", ""), str(each.get("requestObject")))
    ]
    writes = [
        (each["verb"], each["objectRef"]["resource"], each["objectRef"].get("subresource", ""))
        for each in audited
    ]
    reported = [
        datetime.fromisoformat(each["requestReceivedTimestamp"]).timestamp()
        for each, write in zip(audited, writes, strict=True)
        if write == ("patch", "nodes", "status")
    ]
    assert reported
    # Once, and once more where a policy came on after the first report: somebody may wait for that.
    # The agent's minute ends with a tick, and a busy machine delays a request.
    assert all(third - first > 50 for first, third in zip(reported, reported[2:], strict=False))
    topology = [each for each in writes if each[1] == "noderesourcetopologies"]
    assert topology in ([], [("create", "noderesourcetopologies", "")])
    assert {resource for _, resource, _ in writes if resource != "noderesourcetopologies"} <= {
        "nodes",
        "events",
    }
