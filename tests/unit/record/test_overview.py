"""The node at a glance: rows, their order, and why a value is missing."""

from typing import Any

import msgspec
import pytest

from slackwater.model.cgroup import CgroupRef, CpuPressure, Level, PressureLine, Tier
from slackwater.model.gap import Gap
from slackwater.model.plan import Result
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import NodeSnapshot, Rate
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.model.workload import WorkloadContainer
from slackwater.record.agent_view import AgentView
from slackwater.record.overview import Overview, make_overview
from tests.unit.policies.nodes import BURSTABLE, KUBEPODS, node, pod, rate, reading
from tests.unit.record.stories import Told

BATCH, WEB, IDLE = pod(1, Tier.BESTEFFORT), pod(2, Tier.BURSTABLE, 500), pod(3, Tier.GUARANTEED)
PRESSURE = CpuPressure(PressureLine(1234, 0, 0, Micros(0)))


def full() -> NodeSnapshot:
    """A node on which everything was read."""
    usages = {KUBEPODS.id: 700, BURSTABLE.id: 200, 101: 100, 102: 200, 103: 300}
    snapshot = node(usage=900, best_effort=100, workloads=(BATCH, WEB, IDLE), usages=usages)
    assert isinstance(WEB.ref, CgroupRef)
    web = msgspec.structs.replace(
        reading(WEB.ref, Bandwidth(Micros(50_000))), pressure=PRESSURE, weight=20
    )
    return msgspec.structs.replace(
        snapshot,
        rates=snapshot.rates | {102: Rate(MilliCpu(200), 1900, 55)},
        readings=snapshot.readings | {102: web},
        pressure=PRESSURE,
    )


def seen(snapshot: NodeSnapshot, **besides: Any) -> Overview:
    return make_overview(Told().tick(snapshot).view(**besides))


X = ConfigurationProblem("x")


def test_the_node() -> None:
    shown = seen(full()).node
    assert (shown.allocatable, shown.usage, shown.kubepods, shown.request) == (1000, 900, 700, 500)
    assert (shown.pressure, dict(shown.gaps)) == (12.34, {})


def test_the_tiers_and_what_is_outside_pods_add_up_to_the_node() -> None:
    shown = seen(full())
    assert shown.node.outside_pods == 200
    assert sum(row.usage or 0 for row in shown.tiers) + 200 == shown.node.usage


@pytest.mark.parametrize("missing", ["usage", "kubepods"])
def test_what_is_outside_pods_is_not_known_without_both(missing: str) -> None:
    snapshot = full()
    without = {k: each for k, each in snapshot.rates.items() if k != KUBEPODS.id}
    changed: dict[str, Any] = (
        {"usage": Gap("read once")} if missing == "usage" else {"rates": without}
    )
    node_row = seen(msgspec.structs.replace(snapshot, **changed)).node
    assert node_row.outside_pods is None
    assert node_row.gaps["outside_pods"] == node_row.gaps[missing]


def test_tiers_in_their_order_with_the_rest_for_guaranteed() -> None:
    tiers = seen(full()).tiers
    assert [(row.name, row.usage) for row in tiers] == [
        ("guaranteed", 400), ("burstable", 200), ("besteffort", 100),
    ]  # fmt: skip
    assert tiers[0].gaps["quota"] == "guaranteed pods have no group of their own"
    assert "usage" not in tiers[0].gaps
    assert tiers[2].quota == "unlimited"


def test_a_tier_that_is_not_there() -> None:
    snapshot = msgspec.structs.replace(full(), tiers={})
    tier = seen(snapshot).tiers[1]
    assert (tier.usage, tier.gaps["usage"]) == (None, "there is no such group")


def test_pods_by_usage_and_what_is_not_known_last() -> None:
    stray = msgspec.structs.replace(pod(4, Tier.BURSTABLE), ref=Gap("its cgroup is not there"))
    snapshot = msgspec.structs.replace(full(), workloads=(stray, BATCH, WEB, IDLE))
    pods = seen(snapshot).pods
    assert [row.name for row in pods] == ["pod-3", "pod-2", "pod-1", "pod-4"]
    assert set(pods[-1].gaps.values()) == {"its cgroup is not there"}
    web = pods[1]
    assert (web.quota, web.throttled, web.pressure, web.weight) == (500, 5.5, 12.34, 20)
    assert (web.namespace, web.tier, web.request) == ("default", "burstable", 500)
    assert dict(web.gaps) == {}


def test_missing_is_null_with_a_reason_never_zero() -> None:
    row = seen(node(usage=Gap("read once"), best_effort=None, workloads=(BATCH,)))
    assert (row.node.usage, row.node.gaps["usage"]) == (None, "read once")
    pod_row = row.pods[0]
    assert (pod_row.usage, pod_row.quota, pod_row.throttled) == (None, None, None)
    assert set(pod_row.gaps) == {"usage", "throttled", "quota", "pressure", "weight"}


def test_containers() -> None:
    ref = CgroupRef("kubepods/burstable/pod2/abc", 900, Level.CONTAINER, Tier.BURSTABLE, "2")
    inner = (
        WorkloadContainer("nginx", ref, MilliCpu(300), MilliCpu(400)),
        WorkloadContainer("proxy", Gap("its cgroup is not there"), MilliCpu(200), MilliCpu(400)),
    )
    web = msgspec.structs.replace(WEB, containers=inner)
    snapshot = msgspec.structs.replace(full(), workloads=(web,))
    snapshot = msgspec.structs.replace(snapshot, rates=snapshot.rates | {900: rate(150)})
    found = seen(snapshot).pods[0].containers
    assert [(row.name, row.level, row.usage, row.request) for row in found] == [
        ("nginx", "container", 150, 300), ("proxy", "container", None, 200),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("snapshot", "settings", "besides", "state", "because"),
    [
        (node(usage=200), None, {}, "acting", ""),
        (node(usage=Gap("x")), None, {}, "holding", "best_effort_share: x"),
        (node(), {}, {"off": {"p": "p.enabled is false"}}, "off", "p: p.enabled is false"),
        (node(), {}, {"paused": "by hand"}, "paused", "by hand"),
        (node(usage=200), None, {"blind": "gone"}, "blind", "gone"),
        (node(usage=200), None, {"blind": "gone", "paused": "by hand"}, "blind", "gone"),
    ],
)
def test_the_state(
    snapshot: NodeSnapshot,
    settings: dict[str, Any] | None,
    besides: dict[str, Any],
    state: str,
    because: str,
) -> None:
    shown = make_overview(Told().tick(snapshot, settings).view(**besides))
    assert (shown.state, shown.because) == (state, because)


def test_before_the_first_tick() -> None:
    shown = make_overview(AgentView(problems=(X,)))
    assert (shown.state, shown.tick, shown.at, shown.problems) == ("starting", 0, None, ("x",))
    assert make_overview(AgentView(blind="gone")).state == "blind"


@pytest.mark.parametrize(
    ("besides", "problems"),
    [
        ({"blind": "gone", "lost_since": Micros(0), "problems": (X,)}, ("gone", "x")),
        ({"blind": "waiting"}, ()),
    ],
)
def test_a_lost_tree_is_a_problem(besides: dict[str, Any], problems: tuple[str, ...]) -> None:
    assert seen(node(usage=200), **besides).problems == problems
    assert make_overview(AgentView(**besides)).problems == problems


def test_entries_are_effects_each_once() -> None:
    told = Told(Result.REFUSED, "busy")
    for second in (1, 2, 3):
        told.tick(node(usage=200, tick=second))
    shown = make_overview(told.view())
    [entry] = shown.entries
    assert (entry.what, entry.after) == ("quota of kubepods/besteffort", "600m")
    assert (entry.result, entry.at) == ("refused: busy", "2026-01-01T00:00:01.000Z")
    many = Told()
    for second in range(1, 40):
        many.tick(node(usage=200 + second * 10 % 70, tick=second))
    assert len(make_overview(many.view()).entries) == 20


def test_it_survives_a_round_trip() -> None:
    shown = seen(full())
    encoded = msgspec.json.encode(shown)
    assert msgspec.json.decode(encoded, type=Overview) == shown
    assert b'"apiVersion":"slackwater.io/v1"' in encoded
