"""The best-effort share: facts/volcano.md section 6, as compatibility.md decides."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.decision import Act, Hold, Intent, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.needs import PODS, TIERS
from slackwater.model.snapshot import Held
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.policies.best_effort_share import (
    Accounting,
    BestEffortShareSettings,
    Memory,
    decide,
    needs,
)
from tests.unit.policies.nodes import (
    BESTEFFORT,
    BURSTABLE,
    FREE,
    KUBEPODS,
    held,
    node,
    pod,
    reading,
)

SEED = BestEffortShareSettings(enabled=True)


def quota(milli: int) -> Bandwidth:
    return Bandwidth(Micros(milli * 100))


def claim(act: object) -> int:
    assert isinstance(act, Act)
    assert isinstance(act.memory, Memory)
    assert act.memory.last is not None
    return act.memory.last


@pytest.mark.parametrize(
    ("row", "allocatable", "threshold", "used", "last", "expected"),
    [
        ("1", 1000, 80, 200, None, 600),
        ("3", 1000, 80, 900, None, 0),
        ("7, overruled: from zero to a quarter of the budget", 1000, 80, 0, 0, 200),
        ("9, mended: no dead zone", 1000, 80, 0, 9, 200),
        ("below a quarter: there", 1000, 80, 0, 199, 200),
        ("at a quarter: the recover limit", 1000, 80, 0, 200, 220),
        ("11", 1000, 80, 700, 100, 100),
        ("13", 7910, 65, 1333, None, 3808),
        ("cut at once", 1000, 80, 700, 600, 100),
        ("raise by 10 %", 1000, 80, 0, 600, 660),
        ("within the jitter", 100_000, 80, 30_000, 50_400, 50_400),
        ("at the jitter", 100_000, 80, 30_000, 50_506, 50_000),
        ("saturation stays at zero", 1000, 80, 950, 0, 0),
    ],
)
def test_rows(
    row: str, allocatable: int, threshold: int, used: int, last: int | None, expected: int
) -> None:
    settings = msgspec.structs.replace(SEED, threshold=threshold)
    memory = Memory(None if last is None else MilliCpu(last), BESTEFFORT.id)
    found = decide(node(allocatable=allocatable, usage=used), memory, settings)
    assert claim(found) == expected, row


def test_the_tiers_own_usage_is_not_used_by_others() -> None:
    """Volcano counts best-effort work itself, and so throttles it for working."""
    assert claim(decide(node(usage=900, best_effort=800), Memory(), SEED)) == 700


def test_a_tier_that_seems_to_use_more_than_the_node_leaves_zero_not_less() -> None:
    assert claim(decide(node(usage=100, best_effort=300), Memory(), SEED)) == 800


def test_its_story_carries_every_number() -> None:
    found = decide(node(usage=500, best_effort=300), Memory(), SEED)
    assert isinstance(found, Act)
    assert found.numbers == {
        "allocatable": 1000,
        "threshold": 80,
        "allowed": 800,
        "used": 200,
        "budget": 600,
        "claim": 600,
        "recover_from": 25,
    }
    [intent] = found.intents
    assert isinstance(intent, Intent)
    assert (intent.target, intent.verb, intent.value) == (BESTEFFORT, Verb.CAP, 600)
    assert (intent.because.seen, intent.because.limit) == ("200m", "800m allowed")


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (node(usage=Gap("root cpuacct.usage: gone")), "root cpuacct.usage: gone"),
        (node(best_effort=None), "the usage of kubepods/besteffort is not known yet"),
        (
            msgspec.structs.replace(
                node(best_effort=None),
                readings={
                    BESTEFFORT.id: msgspec.structs.replace(
                        reading(BESTEFFORT, FREE), times=Gap("cpuacct is mounted nowhere")
                    )
                },
            ),
            "the usage of kubepods/besteffort cannot be read: cpuacct is mounted nowhere",
        ),
        (
            msgspec.structs.replace(node(), allocatable=Gap("no Node object")),
            "no Node object",
        ),
        (msgspec.structs.replace(node(), tiers={}), "there is no best-effort tier"),
    ],
)
def test_missing_data_holds_and_keeps_the_memory(snapshot: object, reason: str) -> None:
    memory = Memory(MilliCpu(123), BESTEFFORT.id)
    assert decide(snapshot, memory, SEED) == Hold(reason, memory)  # type: ignore[arg-type]


def test_request_accounting_counts_what_was_promised() -> None:
    settings = msgspec.structs.replace(SEED, accounting=Accounting.REQUEST)
    workloads = (pod(1, Tier.BURSTABLE, 300), pod(2, Tier.BESTEFFORT, 999))
    snapshot = node(usage=250, best_effort=50, workloads=workloads, usages={KUBEPODS.id: 150})
    # 100 m outside kubepods and 300 m promised are more than the 200 m used.
    assert claim(decide(snapshot, Memory(), settings)) == 400
    busy = node(usage=650, best_effort=50, workloads=workloads, usages={KUBEPODS.id: 550})
    assert claim(decide(busy, Memory(), settings)) == 200
    unknown = node(usage=250, workloads=workloads)
    assert isinstance(decide(unknown, Memory(), settings), Hold)


def test_pods_carry_the_quota_where_the_tier_cannot() -> None:
    workloads = (pod(1, Tier.BESTEFFORT), pod(2, Tier.BESTEFFORT), pod(3, Tier.BURSTABLE))
    snapshot = node(
        workloads=workloads,
        usages={101: 300, 102: 100},
        off=frozenset({KnobKey(BESTEFFORT.id, "quota")}),
    )
    found = decide(snapshot, Memory(), SEED)
    assert isinstance(found, Act)
    assert [(i.target.id, i.value) for i in found.intents] == [(101, 500), (102, 300)]


@given(
    st.integers(100, 256_000),
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 300_000)), min_size=1),
)
def test_the_claim_never_exceeds_the_budget(
    allocatable: int, threshold: int, loads: list[tuple[int, int]]
) -> None:
    settings = msgspec.structs.replace(SEED, threshold=threshold, jitter=0)
    memory = Memory()
    for usage, best_effort in loads:
        snapshot = node(allocatable=allocatable, usage=usage, best_effort=best_effort)
        found = decide(snapshot, memory, settings)
        assert isinstance(found, Act)
        memory = found.memory  # type: ignore[assignment]
        assert 0 <= claim(found) <= found.numbers["budget"]


@given(st.integers(0, 1000))
def test_a_steady_load_settles_whatever_best_effort_work_does(used: int) -> None:
    """Volcano's swing: the tier's own usage feeds back into its quota."""
    memory = Memory()
    claims: list[int] = []
    for _ in range(100):
        best_effort = claims[-1] if claims else 0
        found = decide(node(usage=used + best_effort, best_effort=best_effort), memory, SEED)
        assert isinstance(found, Act)
        memory = found.memory  # type: ignore[assignment]
        claims.append(claim(found))
    assert set(claims[60:]) == {max(800 - used, 0)}


def test_a_tier_that_was_made_anew_starts_anew() -> None:
    other = Memory(MilliCpu(10), BESTEFFORT.id + 1)
    assert claim(decide(node(usage=200), other, SEED)) == 600


@pytest.mark.parametrize(
    ("row", "ours", "used", "expected"),
    [
        ("raised by 10 %, not to the budget", 300, 0, 330),
        ("from the kernel's least to a quarter", 10, 0, 200),
        ("at most to the budget", 300, 480, 320),
        ("cut at once", 300, 700, 100),
        ("stays where it is right", 300, 500, 300),
        ("the dead band counts from it too", 300, 498, 300),
    ],
)
@pytest.mark.parametrize("memory", [Memory(), Memory(MilliCpu(700), BESTEFFORT.id + 1)])
def test_after_a_restart_the_adopted_quota_is_the_base(
    memory: Memory, row: str, ours: int, used: int, expected: int
) -> None:
    """A kill must be no way around the ramp."""
    kept = (held(BESTEFFORT, FREE, quota(ours)),)
    found = decide(node(usage=used, kept=kept), memory, SEED)
    assert claim(found) == expected, row
    assert isinstance(found, Act)
    assert bool(found.events) is (expected != ours)


@pytest.mark.parametrize(
    "kept",
    [
        (),
        (held(BURSTABLE, FREE, quota(10)),),
        (held(BESTEFFORT, FREE, FREE),),
        (msgspec.structs.replace(held(BESTEFFORT, FREE, quota(10)), knob="burst"),),
        # A pod's quota may be another policy's.
        (
            held(
                CgroupRef("kubepods/besteffort/pod1", 101, Level.POD, Tier.BESTEFFORT),
                FREE,
                quota(10),
            ),
        ),
    ],
    ids=["nothing", "another tier", "no limit", "another knob", "a pod"],
)
def test_the_first_claim_ever_is_the_budget(kept: tuple[Held, ...]) -> None:
    assert claim(decide(node(usage=200, kept=kept), Memory(), SEED)) == 600


def test_the_own_memory_comes_before_what_is_held() -> None:
    """The kernel may have rounded, and another policy may have cut more."""
    kept = (held(BESTEFFORT, FREE, quota(100)),)
    memory = Memory(MilliCpu(300), BESTEFFORT.id)
    assert claim(decide(node(usage=0, kept=kept), memory, SEED)) == 330


@given(st.integers(10, 800), st.integers(0, 1000), st.integers(1, 100))
def test_a_restart_at_any_tick_changes_nothing(ours: int, used: int, recover: int) -> None:
    settings = msgspec.structs.replace(SEED, recover=recover)
    snapshot = node(usage=used, kept=(held(BESTEFFORT, FREE, quota(ours)),))
    going_on = Memory(MilliCpu(ours), BESTEFFORT.id)
    assert decide(snapshot, Memory(), settings) == decide(snapshot, going_on, settings)


@pytest.mark.parametrize(("last", "used", "expected"), [(300, 0, 300), (300, 700, 100)])
def test_a_look_before_its_time_cuts_and_never_raises(last: int, used: int, expected: int) -> None:
    early = msgspec.structs.replace(node(usage=used), early=True)
    assert claim(decide(early, Memory(MilliCpu(last), BESTEFFORT.id), SEED)) == expected


def test_the_first_claim_is_made_even_before_its_time() -> None:
    early = msgspec.structs.replace(node(usage=200), early=True)
    assert claim(decide(early, Memory(), SEED)) == 600


def test_pods_are_needed_where_something_cannot_be_written() -> None:
    assert needs(SEED, frozenset()) == TIERS
    assert needs(SEED, frozenset({KnobKey(2, "quota")})) == PODS


def test_an_event_for_every_new_claim_and_for_no_other() -> None:
    first = decide(node(usage=200), Memory(), SEED)
    assert isinstance(first, Act)
    assert [(e.name, e.resource, e.milli) for e in first.events] == [
        ("NodeCPUThrottleEvent", "cpu", 600)
    ]
    again = decide(node(usage=200), Memory(MilliCpu(600), BESTEFFORT.id), SEED)
    assert isinstance(again, Act)
    assert again.events == ()
