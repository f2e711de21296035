"""The manager beside a real API server: statuses, events, leaders, and silence when all is said."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.contract.node_report import ANNOTATION, ActiveRule, NodeReport
from tests.cluster.managers import (
    Crew,
    action,
    charts_role,
    condition,
    crew,
    install_kinds,
    node,
    policy,
    remove_policies,
    writes,
)
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for


@pytest.fixture
def replicas(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Crew]:
    install_kinds(control_plane)
    with crew(control_plane.kubeconfig(), namespace, tmp_path) as made:
        yield made
    remove_policies(control_plane)


def is_valid(control_plane: ControlPlane, name: str, status: str = "True") -> bool:
    return condition(control_plane, name).get("status") == status


def test_kubectl_get_shows_what_a_policy_does(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    replicas.add()
    control_plane.apply(action(f"a-{namespace}"), policy(f"p-{namespace}", f"a-{namespace}"))
    wait_for("a verdict", lambda: is_valid(control_plane, f"p-{namespace}"))
    shown = control_plane.kubectl("get", "nodeqos", f"p-{namespace}")
    assert "throttle when cpu_total_usage > 6000, twice in a row; back after 2 below" in shown
    assert " True " in shown
    assert condition(control_plane, f"p-{namespace}", "Enforced")["status"] == "False"
    managed = control_plane.get("nodeqos", f"p-{namespace}", "--show-managed-fields")
    ours = [
        (each["manager"], each["operation"])
        for each in managed["metadata"]["managedFields"]
        if each.get("subresource") == "status"
    ]
    assert ours == [("slackwater-manager", "Apply")]


def test_an_unknown_action_is_a_condition_and_an_event_until_it_is_mended(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    manager = replicas.add()
    name, missing = f"p-{namespace}", f"a-{namespace}"
    control_plane.apply(policy(name, missing))
    wait_for("a verdict", lambda: is_valid(control_plane, name, "False"))
    sentence = f"rule cpu-usage: there is no AvoidanceAction '{missing}'"
    assert condition(control_plane, name)["message"] == sentence

    def events() -> list[tuple[str, str, str]]:
        found = control_plane.get(
            "events", "-n", "default", f"--field-selector=involvedObject.name={name}"
        )["items"]
        return sorted((each["type"], each["reason"], each["message"]) for each in found)

    warning = ("Warning", "PolicyInvalid", sentence)
    wait_for("the warning", lambda: events() == [warning])
    control_plane.apply(action(missing))
    wait_for("it to be mended", lambda: is_valid(control_plane, name))
    wait_for("the good news", lambda: len(events()) == 2)
    assert events()[0][:2] == ("Normal", "PolicyValid")
    about = f"status of NodeQOS {name}"
    told = [line["after"] for line in manager.lines() if line["what"] == about]
    assert told == ["Valid=False", "Valid=True"]


def test_nodes_are_counted_by_their_labels(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    replicas.add()
    control_plane.apply(policy(f"p-{namespace}", "any", selector={"pool": namespace}))

    def counted() -> int | None:
        found = control_plane.get("nodeqos", f"p-{namespace}").get("status", {}).get("nodes")
        return found if isinstance(found, int) else None

    wait_for("no node", lambda: counted() == 0)
    control_plane.apply(*(node(f"{each}-{namespace}", pool=namespace) for each in ("one", "two")))
    wait_for("two nodes", lambda: counted() == 2)
    control_plane.kubectl("delete", "node", "-l", f"pool={namespace}")
    wait_for("no node again", lambda: counted() == 0)


def test_reports_of_agents_become_conditions(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    replicas.add()
    name, used = f"p-{namespace}", f"a-{namespace}"
    one, two = (f"{each}-{namespace}" for each in ("one", "two"))
    control_plane.apply(action(used), policy(name, used, selector={"pool": namespace}))
    control_plane.apply(node(one, pool=namespace), node(two, pool=namespace))

    def told(kind: str) -> tuple[str, str]:
        found = condition(control_plane, name, kind)
        return found.get("reason", ""), found.get("message", "")

    silent = ("NoAgent", f"no agent reports from {one}, {two}")
    wait_for("no agent", lambda: told("Enforced") == silent)
    active = ActiveRule("cpu-usage", "triggered", "2026-11-17T10:00:00Z")
    report = NodeReport(policies={"watermark_relief": ""}, rules={f"NodeQOS/{name}": (active,)})
    control_plane.kubectl("annotate", "node", two, f"{ANNOTATION}={report.text()}")
    wait_for("a follower", lambda: told("Enforced")[0] == "Followed")
    assert told("Enforced")[1] == f"1 of 2 nodes follows it; not {one}"
    assert told("Triggered") == ("Triggered", f"cpu-usage on {two}")
    shown = control_plane.kubectl("get", "nodeqos", name)
    assert shown.split("\n")[0].split() == [
        "NAME", "DOES", "NODES", "VALID", "ENFORCED", "TRIGGERED", "AGE",
    ]  # fmt: skip
    assert condition(control_plane, used, "Enforced", "avoid")["message"] == f"by NodeQOS/{name}"
    control_plane.kubectl("delete", "node", "-l", f"pool={namespace}")


def test_when_all_is_said_nothing_is_written(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    """Though nodes and objects change all the time, as long as no verdict does."""
    replicas.add()
    replicas.add()
    names = [f"p{number}-{namespace}" for number in range(10)]
    policies = [policy(each, f"a-{namespace}") for each in names]
    control_plane.apply(node(f"n-{namespace}"), action(f"a-{namespace}"), *policies)
    wait_for("the verdicts", lambda: _are_judged(control_plane, names))
    rounds = _rounds(replicas)
    began = time.time()
    for number, name in enumerate(names):
        beat = ("annotate", "--overwrite", f"beat={number}")
        control_plane.kubectl(*beat[:2], "node", f"n-{namespace}", beat[2])
        control_plane.kubectl(*beat[:2], "nodeqos", name, beat[2])
    wait_for("two more rounds", lambda: _rounds(replicas) >= rounds + 2)
    assert writes(control_plane, began) == []
    control_plane.kubectl("delete", "node", f"n-{namespace}")


def _are_judged(control_plane: ControlPlane, names: list[str]) -> bool:
    """By the number of nodes that there are now."""
    objects = control_plane.get("nodeqos,avoid", "-l", "made-by=managers")["items"]
    found = {each["metadata"]["name"]: each.get("status", {}) for each in objects}
    nodes = len(control_plane.get("nodes")["items"])
    return all(found.values()) and all(found[name].get("nodes") == nodes for name in names)


def _rounds(replicas: Crew) -> float:
    leader = replicas.leader()
    assert leader is not None
    [line] = [
        line
        for line in leader.ask("/metrics")[1].splitlines()
        if line.startswith("slackwater_manager_rounds_total ")
    ]
    return float(line.split()[1])


def test_a_killed_leader_is_followed_within_its_lease(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    first, second = replicas.add(), replicas.add()
    wait_for("a leader", replicas.leader)
    leader = replicas.leader()
    follower = second if leader is first else first
    assert leader is not None
    assert not follower.leads()
    assert follower.is_ready()
    leader.kill()
    control_plane.apply(action(f"a-{namespace}"), policy(f"p-{namespace}", f"a-{namespace}"))
    wait_for("the other to lead", follower.leads)
    wait_for("its verdict", lambda: is_valid(control_plane, f"p-{namespace}"))
    lease = control_plane.get("lease", "slackwater-manager", "-n", namespace)
    assert lease["spec"]["holderIdentity"] == follower.identity


def test_a_leader_that_is_asked_to_end_hands_over_at_once(
    control_plane: ControlPlane, replicas: Crew, namespace: str
) -> None:
    first = replicas.add()
    wait_for("the first to lead", first.leads)
    second = replicas.add()
    assert first.end() == 0
    wait_for("the second to lead", second.leads)
    assert second.end() == 0
    lease = control_plane.get("lease", "slackwater-manager", "-n", namespace)
    assert not lease["spec"].get("holderIdentity")


def test_it_tells_how_it_is(control_plane: ControlPlane, replicas: Crew, namespace: str) -> None:
    manager = replicas.add()
    wait_for("it to lead", manager.leads)
    control_plane.apply(policy(f"p-{namespace}", "nobody"))
    wait_for("a verdict", lambda: is_valid(control_plane, f"p-{namespace}", "False"))
    assert manager.ask("/healthz")[0] == 200

    def numbers() -> str:
        return manager.ask("/metrics")[1]

    wait_for(
        "the invalid one to be counted",
        lambda: 'slackwater_manager_invalid_objects{kind="NodeQOS"} 1.0' in numbers(),
    )
    assert "slackwater_manager_leader 1.0" in numbers()
    written = 'slackwater_manager_status_writes_total{kind="NodeQOS",result="applied"} 1.0'
    assert written in numbers()
    assert manager.ask("/nowhere")[0] == 404


def test_kinds_that_come_later_and_a_server_that_goes_and_comes(
    make_control_plane: Callable[[], ControlPlane], tmp_path: Path
) -> None:
    """With no more rights than the chart grants. Without any definition it is ready and says so
    once; with them it judges. While the server is gone it stays alive, and afterwards it goes on.
    """
    plane = make_control_plane()
    plane.kubectl("create", "namespace", "slackwater-system")
    with crew(charts_role(plane), "slackwater-system", tmp_path) as replicas:
        manager = replicas.add()
        said = [line["because"] for line in manager.lines() if line["what"] == "NodeQOS"]
        assert said == ["the cluster does not know this kind: its definition is not installed"]
        install_kinds(plane)
        plane.apply(action("throttle"), policy("later", "throttle"))
        wait_for("a verdict", lambda: is_valid(plane, "later"))
        # Before the end of a server: a new one knows no roles yet for a moment, and forbids all.
        assert "forbidden" not in str(manager.lines())
        plane.kill("kube-apiserver")
        wait_for("the loss to be told", lambda: '"problems"' in manager.ask("/readyz")[1])
        assert manager.ask("/healthz")[0] == 200
        plane.start("kube-apiserver")
        plane.apply(policy("again", "nowhere"))
        wait_for("another verdict", lambda: is_valid(plane, "again", "False"))
        wait_for("its event", lambda: plane.get("events", "-n", "default")["items"])
        assert manager.process.poll() is None
        repeated = [line for line in manager.lines() if line["what"] == "status of NodeQOS later"]
        assert len(repeated) == 1
        wait_for("all to be well", lambda: '"problems"' not in manager.ask("/readyz")[1])
