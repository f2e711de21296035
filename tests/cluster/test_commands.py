"""Commands at a real API server, with the rights and the admission of the chart: taint and
condition beside those of others, evictions with budgets, grace periods and uids."""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.contract.node_interference import NodeInterference, SeenInterference
from slackwater.contract.node_offer import SeenOffer
from slackwater.contract.resources import NODES, ObjectSelector
from slackwater.execution.api_commands import ApiCommands
from slackwater.execution.commands import CommandQueue
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.kube.informer import Informer
from slackwater.model.decision import Command, CommandKind
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from slackwater.observation.objects import cluster_kinds as readers
from slackwater.runtime.loop import monotonic_now
from tests.cluster.chart import AGENT, OTHER, OWN, WORK, pod, pod_client, with_rights
from tests.cluster.kube_world import access_of
from tests.unit.execution.command_desk import BECAUSE, condition, taint
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

SECOND = 1_000_000
OURS = {"key": "interference.crane.io", "effect": "PreferNoSchedule"}
THEIRS = {"key": "a", "value": "x", "effect": "NoExecute"}
NOTE = "slackwater.io/interference"


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    with with_rights(ControlPlane(make_folder(), programs)) as made:
        yield made


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Client:
    return Client(access_of(plane), "admin", timeout=300)


class Desk:
    """The agent's queue, with its own token, its informer of the Node, and the test's clock."""

    def __init__(self, client: Client) -> None:
        self.now = Micros(0)
        self._node = Informer(
            client,
            NODES,
            readers.node_of,
            clock=monotonic_now,
            selector=ObjectSelector(fields=f"metadata.name={OWN}"),
            jitter=random.Random(1),  # noqa: S311
        )
        self._node.start()
        assert self._node.wait_synced(300)
        self.runner = ApiCommands(client, OWN, self._seen, self._seen_offer)
        self.queue = self.restarted()

    def restarted(self) -> CommandQueue:
        self.queue = CommandQueue(
            self.runner,
            clock=lambda: self.now,
            jitter=random.Random(1),  # noqa: S311
        )
        return self.queue

    def _seen(self) -> SeenInterference | None:
        found = self._node.view().items.get(OWN)
        return found.interference if found else None

    def _seen_offer(self) -> SeenOffer | None:
        found = self._node.view().items.get(OWN)
        return found.offer if found else None

    def round(self, *commands: Command, seconds: float = 1, decided: bool = True) -> None:
        self.now = Micros(self.now + int(seconds * SECOND))
        self.queue.offer(commands, self.now, decided=decided)
        self.queue.run_due()

    def settle(self, *commands: Command) -> None:
        """A round, and until the informer shows what is wanted: nothing is left to do."""
        self.round(*commands)
        asked = {each.kind: each.value for each in commands}
        effect, status = asked.get(CommandKind.TAINT), asked.get(CommandKind.CONDITION)
        wanted = NodeInterference(
            "" if effect is None else effect or "PreferNoSchedule",
            "" if status is None else status or "True",
        )
        wait_for("the informer", lambda: not self.seen().differs(wanted))

    def seen(self) -> SeenInterference:
        found = self._seen()
        assert found is not None
        return found

    def close(self) -> None:
        self._node.stop()


@pytest.fixture
def desk(plane: ControlPlane) -> Iterator[Desk]:
    made = Desk(pod_client(plane, AGENT, "agent"))
    try:
        yield made
    finally:
        made.round()
        made.close()


def node_of(plane: ControlPlane) -> dict[str, Any]:
    found: dict[str, Any] = plane.get("node", OWN)
    return found


def taints_of(plane: ControlPlane) -> list[dict[str, str]]:
    """But for the node lifecycle controller's, which misses a kubelet here."""
    found = node_of(plane)["spec"].get("taints") or []
    return [each for each in found if not each["key"].startswith("node.kubernetes.io/")]


def condition_of(plane: ControlPlane, kind: str = "interference-identified") -> dict[str, str]:
    found = node_of(plane)["status"].get("conditions") or []
    return next((each for each in found if each["type"] == kind), {})


def note_of(plane: ControlPlane) -> str | None:
    annotations: dict[str, str] = node_of(plane)["metadata"].get("annotations") or {}
    return annotations.get(NOTE)


def replace_taints(plane: ControlPlane, *taints: dict[str, str]) -> None:
    body = json.dumps({"spec": {"taints": list(taints) or None}})
    plane.kubectl("patch", "node", OWN, "--type=merge", "-p", body)


# --- taint and condition


def test_taint_and_condition_come_and_go_beside_those_of_others(
    plane: ControlPlane, desk: Desk
) -> None:
    replace_taints(plane, THEIRS)
    desk.settle(taint(), condition())
    assert taints_of(plane) == [THEIRS, OURS]
    shown = condition_of(plane)
    assert (shown["status"], shown["reason"]) == ("True", "Triggered")
    assert "cpu_total_usage" in shown["message"]
    assert shown["lastTransitionTime"]
    assert note_of(plane) == "taint,condition"
    desk.settle()
    assert taints_of(plane) == [THEIRS]
    assert condition_of(plane) == {}
    assert note_of(plane) is None


def test_only_a_change_is_written(plane: ControlPlane, desk: Desk) -> None:
    desk.settle(taint(), condition())
    before = written_by_agent(plane)
    assert before
    for _ in range(20):
        desk.round(taint(), condition(), seconds=10)
    assert written_by_agent(plane) == before


def written_by_agent(plane: ControlPlane) -> set[str]:
    """Its requests that change a Node, by the server's own account."""
    return {
        line["auditID"]
        for line in plane.audit()
        if line["verb"] == "patch"
        and line["user"].get("username", "").endswith(f":{AGENT}")
        and line["objectRef"]["resource"] == "nodes"
    }


def test_another_effect_takes_the_place_of_the_first(plane: ControlPlane, desk: Desk) -> None:
    replace_taints(plane)
    desk.settle(taint())
    desk.settle(taint("NoSchedule"))
    assert taints_of(plane) == [OURS | {"effect": "NoSchedule"}]


def test_no_change_of_another_writer_is_lost(
    plane: ControlPlane, desk: Desk, admin: Client
) -> None:
    replace_taints(plane)
    done = threading.Event()
    written = 0

    def count() -> None:
        nonlocal written
        while not done.is_set() or written < 20:
            written += _count_up(admin, written + 1)

    writer = threading.Thread(target=count)
    writer.start()
    try:
        for number in range(10):
            asked = () if number % 2 else (taint(),)
            while True:
                desk.round(*asked, seconds=120)
                tainted = OURS in taints_of(plane)
                if tainted == bool(asked):
                    break
    finally:
        done.set()
        writer.join()
    assert taints_of(plane) == [{"key": "count", "value": str(written), "effect": "NoSchedule"}]


def _count_up(admin: Client, number: int) -> int:
    """Another program that changes the list as a whole, as kubectl does; 0 where it conflicted."""
    node = msgspec.json.decode(admin.get(NODES, OWN))
    others = [each for each in node["spec"].get("taints") or [] if each["key"] != "count"]
    mine = {"key": "count", "value": str(number), "effect": "NoSchedule"}
    version = node["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "spec": {"taints": [*others, mine]}}
    try:
        admin.patch(NODES, OWN, body, kind=PatchKind.MERGE)
    except HttpStatusError as refused:
        assert refused.status == 409, refused
        return 0
    return 1


def test_the_report_and_the_condition_do_not_fight(plane: ControlPlane, desk: Desk) -> None:
    """The report is a server-side apply, which removes what its manager no longer mentions."""
    acting = {"type": "SlackwaterActing", "status": "True", "reason": "Acting", "message": "m"}
    report = {
        "metadata": {"annotations": {"slackwater.io/report": "{}"}},
        "status": {"conditions": [acting]},
    }
    reporter = pod_client(plane, AGENT, "agent")
    reporter.apply(NODES, OWN, report, manager=AGENT, subresource="status")
    desk.settle(taint(), condition())
    reporter.apply(NODES, OWN, report, manager=AGENT, subresource="status")
    assert condition_of(plane)["status"] == "True"
    assert note_of(plane) == "taint,condition"
    desk.settle()
    assert condition_of(plane, "SlackwaterActing")["status"] == "True"
    assert "slackwater.io/report" in node_of(plane)["metadata"]["annotations"]
    assert condition_of(plane) == {}


def test_after_a_crash_the_first_decision_puts_right(plane: ControlPlane, desk: Desk) -> None:
    replace_taints(plane, THEIRS)
    desk.settle(taint(), condition())
    desk.restarted()
    desk.round(decided=False)
    assert OURS in taints_of(plane)
    desk.settle()
    assert taints_of(plane) == [THEIRS]
    assert condition_of(plane) == {}
    assert [(each.command.title(), each.undone) for each in desk.queue.outcomes()] == [
        ("taint interference.crane.io", True),
        ("condition interference-identified", True),
    ]


def test_a_crash_between_taint_and_condition_leaves_nothing_unknown(
    plane: ControlPlane, desk: Desk
) -> None:
    desk.settle(taint())
    assert note_of(plane) == "taint"
    desk.restarted()
    desk.settle()
    assert OURS not in taints_of(plane)


def test_what_another_program_set_stays_until_we_ask_for_the_same(
    plane: ControlPlane, desk: Desk
) -> None:
    replace_taints(plane, OURS)
    wait_for("the informer", lambda: desk.seen().shown.effect)
    desk.round()
    assert taints_of(plane) == [OURS]
    desk.settle(taint())
    assert (taints_of(plane), note_of(plane)) == ([OURS], "taint")
    desk.settle()
    assert taints_of(plane) == []


def test_a_taint_that_a_person_removed_comes_back(plane: ControlPlane, desk: Desk) -> None:
    desk.settle(taint())
    replace_taints(plane, THEIRS)
    wait_for("the informer", lambda: not desk.seen().shown.effect)
    desk.round(taint(), seconds=10)
    assert taints_of(plane) == [THEIRS, OURS]


def test_a_release_removes_both_before_the_end(plane: ControlPlane, desk: Desk) -> None:
    desk.settle(taint(), condition())
    queue = CommandQueue(desk.runner, clock=monotonic_now, jitter=random.Random(1))  # noqa: S311
    queue.start()
    queue.offer((taint(), condition()), monotonic_now())
    queue.release()
    queue.stop(300)
    assert OURS not in taints_of(plane)
    assert condition_of(plane) == {}


def release_without_an_agent(
    plane: ControlPlane, folder: Path, node: str
) -> subprocess.CompletedProcess[str]:
    program = (sys.executable, "-m", "slackwater", "release", "--state", f"{folder}/none")
    place = ("--node", node, "--kubeconfig", str(plane.kubeconfig()))
    return subprocess.run([*program, *place], capture_output=True, text=True, check=False)


def test_what_an_agent_left_that_is_gone_is_released_by_hand(
    plane: ControlPlane, desk: Desk, tmp_path: Path
) -> None:
    replace_taints(plane, THEIRS)
    desk.settle(taint(), condition())
    done = release_without_an_agent(plane, tmp_path, OWN)
    assert done.returncode == 0, done.stderr
    assert taints_of(plane) == [THEIRS]
    assert condition_of(plane) == {}
    unknown = release_without_an_agent(plane, tmp_path, "nobody")
    assert unknown.returncode == 1
    assert "taint and condition of node nobody stay: " in unknown.stderr
    assert "Traceback" not in unknown.stderr


# --- evictions


def make_pod(plane: ControlPlane, name: str, *, node: str = OWN, ready: bool = True) -> str:
    """Running, as its kubelet would say, so that budgets count it; its uid."""
    made = pod(name, WORK, node)
    made["metadata"]["labels"] = {"app": name}
    made["spec"]["terminationGracePeriodSeconds"] = 30
    plane.create(made)
    if ready:
        told = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        patch = json.dumps({"status": told})
        where = ("-n", WORK, "--subresource=status", "-p", patch)
        plane.kubectl("patch", "pod", name, *where)
    found: str = plane.get("pod", name, "-n", WORK)["metadata"]["uid"]
    return found


def evict(name: str, uid: str, grace: int | None = 7, namespace: str = WORK) -> Command:
    target = f"{namespace}/{name}"
    return Command(
        uid, CommandKind.EVICT, target, BECAUSE, "watermark_relief", uid=uid, grace_seconds=grace
    )


@pytest.mark.parametrize(("grace", "seconds"), [(7, 7), (None, 30)])
def test_the_grace_period_is_the_actions_else_the_pods(
    plane: ControlPlane, desk: Desk, grace: int | None, seconds: int
) -> None:
    name = f"grace-{seconds}"
    desk.round(evict(name, make_pod(plane, name), grace))
    there = plane.get("pod", name, "-n", WORK)["metadata"]
    assert there["deletionGracePeriodSeconds"] == seconds
    [progress] = desk.queue.progress()
    assert progress.state is CommandState.DONE


def test_a_budgets_refusal_is_no_release_and_is_tried_again(
    plane: ControlPlane, desk: Desk
) -> None:
    uid = make_pod(plane, "guarded")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": WORK},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    plane.create(budget)
    wait_for(
        "the budget", lambda: plane.get("pdb", "guard", "-n", WORK)["status"]["currentHealthy"]
    )
    desk.round(evict("guarded", uid))
    [progress] = desk.queue.progress()
    assert progress.state is CommandState.REFUSED
    assert progress.detail.startswith("a disruption budget holds it: ")
    assert "deletionTimestamp" not in plane.get("pod", "guarded", "-n", WORK)["metadata"]
    plane.kubectl("delete", "pdb", "guard", "-n", WORK)
    for _ in range(5):
        desk.round(seconds=120)
        if plane.get("pod", "guarded", "-n", WORK)["metadata"].get("deletionTimestamp"):
            break
    [progress] = desk.queue.progress()
    assert progress.state is CommandState.DONE


def test_a_new_pod_of_the_same_name_is_not_meant(plane: ControlPlane, desk: Desk) -> None:
    before = make_pod(plane, "twice")
    plane.kubectl("delete", "pod", "twice", "-n", WORK, "--force", "--grace-period=0")
    now = make_pod(plane, "twice")
    desk.round(evict("twice", before))
    assert desk.queue.progress() == ()
    there = plane.get("pod", "twice", "-n", WORK)["metadata"]
    assert there["uid"] == now
    assert "deletionTimestamp" not in there


def test_a_pod_of_another_node_is_left(plane: ControlPlane, desk: Desk) -> None:
    desk.round(evict("elsewhere", make_pod(plane, "elsewhere", node=OTHER)))
    [progress] = desk.queue.progress()
    assert progress.state is CommandState.REFUSED
    assert progress.detail == f"the pod is on node {OTHER!r}, not on {OWN!r}"


def test_a_critical_pod_is_left(plane: ControlPlane, desk: Desk) -> None:
    made = pod("critical", NAMESPACE, OWN)
    made["spec"]["priorityClassName"] = "system-node-critical"
    plane.create(made)
    uid = plane.get("pod", "critical", "-n", NAMESPACE)["metadata"]["uid"]
    desk.round(evict("critical", uid, namespace=NAMESPACE))
    [progress] = desk.queue.progress()
    assert (progress.state, progress.detail) == (
        CommandState.REFUSED,
        "the pod is protected: critical",
    )


def test_an_eviction_that_was_taken_while_its_answer_was_lost_is_found(
    plane: ControlPlane, desk: Desk
) -> None:
    uid = make_pod(plane, "lost")
    pod_client(plane, AGENT, "agent").evict(WORK, "lost", uid=uid, grace_seconds=7)
    desk.round(evict("lost", uid, grace=9))
    [progress] = desk.queue.progress()
    assert (progress.state, progress.detail) == (CommandState.DONE, "the pod is terminating")
    there = plane.get("pod", "lost", "-n", WORK)["metadata"]
    assert there["deletionGracePeriodSeconds"] == 7


def test_a_missing_right_is_named(plane: ControlPlane) -> None:
    manager = pod_client(plane, "slackwater-manager", "manager")
    runner = ApiCommands(manager, OWN, lambda: None, lambda: None)
    attempt = runner.evict(evict("on-node-a", "any"), None)
    assert attempt.state is CommandState.REFUSED
    assert attempt.detail.startswith("the agent lacks the right to get pods: ")
    assert "cannot get resource" in attempt.detail
