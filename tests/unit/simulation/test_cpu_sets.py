"""CPUs of their own on the fake kernel, by the agent itself: who runs where, tick by tick."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as few
from hypothesis import strategies as st

from slackwater.execution.release import DONE
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.cpus import CpuPolicy, CpuSet, Topology
from slackwater.model.knob import CPUS
from slackwater.model.units import UNLIMITED
from slackwater.record.journal import TickRecord
from slackwater.simulation.scenario_machine import build_topology, plain_machine
from tests.unit.simulation.mortal import MEMORY
from tests.unit.simulation.pinned import V1, V2, PinnedNode, placed, remarks

pytestmark = pytest.mark.parametrize("version", [V1, V2])


@pytest.fixture
def node(tmp_path: Path, version: CgroupVersion) -> PinnedNode:
    return PinnedNode(tmp_path, version)


def test_nothing_is_touched_without_a_claim(node: PinnedNode) -> None:
    node.add("web", 2, tier=Tier.GUARANTEED)
    node.add("batch", 0, tier=Tier.BESTEFFORT)
    before = node.values()
    assert not node.once().outcomes
    assert node.values() == before


def test_exclusive_then_share(node: PinnedNode) -> None:
    """Crane's case on a machine without hyper-threads; CPU 0 is reserved."""
    for name, tier in (("web", Tier.GUARANTEED), ("job", Tier.BESTEFFORT), ("app", Tier.BURSTABLE)):
        node.add(name, 0, tier=tier)
    node.add("alone", 2, policy="exclusive", tier=Tier.GUARANTEED)
    node.add("bound", 2, policy="share")
    node.once()
    assert node.effective("alone", 0) == "1-2"
    assert node.effective("bound", 0) == "3-4"
    rest = [node.effective(name, 0) for name in ("web", "job", "app")]
    sandboxes = [node.effective(name, -1) for name in ("web", "job", "app", "alone", "bound")]
    assert {*rest, *sandboxes} == {"0,3-7"}


def test_everybody_else_has_every_cpu_when_exclusive_becomes_share(node: PinnedNode) -> None:
    node.add("app", 0)
    node.add("alone", 2, policy="exclusive")
    node.once()
    node.annotate("alone", "share")
    node.once()
    assert (node.effective("alone", 0), node.effective("app", 0)) == ("1-2", "0-7")
    assert node.quota("alone", 0) == 200_000


@pytest.mark.parametrize("first", ["none", "share", "exclusive", ""])
@pytest.mark.parametrize("second", ["none", "share", "exclusive", ""])
def test_live_changes_take_one_tick(node: PinnedNode, first: str, second: str) -> None:
    want = {
        "exclusive": ("1-2", "0,3-7", UNLIMITED),
        "share": ("1-2", "0-7", 200_000),
        "none": ("0-7", "0-7", 200_000),
        "": ("0-7", "0-7", 200_000),
    }
    node.add("app", 0)
    node.add("it", 2, policy=first)
    before = node.values()
    for policy in (first, second, first):
        node.annotate("it", policy)
        node.once()
        found = (node.effective("it", 0), node.effective("app", 0), node.quota("it", 0))
        assert found == want[policy]
    node.annotate("it", "")
    node.once()
    node.once()
    assert node.values() == before


def test_a_pod_that_goes_gives_its_cpus_back_at_once(node: PinnedNode) -> None:
    node.add("app", 0)
    before = node.values()
    node.add("alone", 3, policy="exclusive")
    node.once()
    node.add("next", 5, policy="exclusive")
    assert "5 CPUs of its own are not free, 4 are" in remarks(node.once())["shop/next"]
    node.remove("alone")
    record = node.once()
    assert node.effective("next", 0) == "1-5"
    assert not remarks(record)
    node.remove("next")
    node.once()
    assert node.values() == before


def test_containers_of_one_pod(node: PinnedNode) -> None:
    """Two have CPUs of their own, one has not; nor has the sandbox."""
    node.add("mixed", 2, 0, 1, policy="exclusive")
    node.once()
    found = [node.effective("mixed", place) for place in (-1, 0, 1, 2)]
    assert found == ["0,4-7", "1-2", "0,4-7", "3"]
    assert node.quota("mixed", 0) is UNLIMITED


def test_the_pods_quota_is_lifted_and_put_back(node: PinnedNode) -> None:
    node.add("alone", 2, 1, policy="exclusive", tier=Tier.GUARANTEED)
    node.once()
    assert [node.quota("alone", place) for place in (None, 0, 1)] == [UNLIMITED] * 3
    node.annotate("alone", "none")
    node.once()
    assert [node.quota("alone", place) for place in (None, 0, 1)] == [300_000, 200_000, 100_000]


def test_a_container_that_starts_meanwhile_is_caught(node: PinnedNode) -> None:
    node.add("app", 0, 0)
    node.add("alone", 2, policy="exclusive")
    node.once()
    node.restart_container("app", 1)
    node.add("late", 0, tier=Tier.BESTEFFORT)
    node.once()
    assert {node.effective(*who) for who in (("app", 1), ("late", 0), ("late", -1))} == {"0,3-7"}
    before = node.values()
    node.remove("alone")
    node.once()
    node.once()
    assert {node.effective(*who) for who in (("app", 0), ("app", 1), ("late", 0))} == {"0-7"}
    assert before


@pytest.mark.parametrize(
    ("size", "text"),
    [(8, "8 CPUs are more than the 7 that can be had here"), (7, "")],
)
def test_more_than_the_machine_has(node: PinnedNode, size: int, text: str) -> None:
    node.add("app", 0)
    node.add("large", size, policy="exclusive")
    said = remarks(node.once()).get("shop/large", "")
    assert said.startswith(text)
    assert bool(said) is bool(text)
    assert node.effective("app", 0) == ("0-7" if text else "0")


def test_the_same_cpus_after_a_kill(node: PinnedNode) -> None:
    for number in range(3):
        node.add(f"p{number}", 1, policy="exclusive")
        node.once()
    node.remove("p0")
    node.once()
    held = {name: node.effective(name, 0) for name in ("p1", "p2")}
    assert held == {"p1": "2", "p2": "3"}
    node.bed.start()
    record = node.once()
    assert not record.outcomes
    assert {name: node.effective(name, 0) for name in held} == held


@pytest.mark.parametrize("policy", ["share", "exclusive"])
def test_a_bad_word_takes_nothing_away(node: PinnedNode, policy: str) -> None:
    """While the agent runs, and after it was killed; a good word counts again at once."""
    node.add("app", 0)
    node.add("it", 2, 1, policy=policy)
    node.once()
    before = node.values()
    for start in (False, True):
        node.annotate("it", f"{policy}s")
        if start:
            node.bed.start()
        record = node.once()
        assert not record.outcomes
        assert node.values() == before
        said = remarks(record)["shop/it"]
        assert f"is '{policy}s', but must be one of" in said
        assert f"{policy} stays in force" in said
    node.annotate("it", "none")
    record = node.once()
    assert node.effective("it", 0) == node.effective("app", 0) == "0-7"
    node.annotate("it", "nothing")
    assert remarks(node.once())["shop/it"].endswith("it counts as none")


def machine(*gone: int) -> Topology:
    whole = build_topology(plain_machine(8))
    return Topology(tuple(cpu for cpu in whole.cpus if cpu.number not in gone))


def test_a_cpu_goes_offline_and_comes_back(node: PinnedNode) -> None:
    """Its holder gets another; where none is left it is told, and bound again afterwards. On v1 a
    CPU that came back stays out of the kubelet's groups, and so of ours."""
    node.add("it", 2, policy="exclusive")
    node.add("other", 2, policy="exclusive")
    node.once()
    node.take_offline(2)
    assert not remarks(node.once())
    assert (node.effective("it", 0), node.effective("other", 0)) == ("1,5", "3-4")
    node.take_offline(2, 5, 6, 7)
    record = node.once()
    assert remarks(record)["shop/it"].startswith("2 CPUs of its own are not free, 1 are")
    assert node.effective("other", 0) == "3-4"
    node.take_offline()
    told = remarks(node.once())
    assert node.effective("other", 0) == "3-4"
    if node.kernel.version(CPUS) is V2:
        assert not told
        assert len(CpuSet.parse(node.effective("it", 0))) == 2
    else:
        assert told["shop/it"].startswith("2 CPUs of its own are not free, 1 are")


def test_everybody_follows_when_a_cpu_goes_offline(node: PinnedNode) -> None:
    """All others follow in the same tick, and nothing is left of it at the end."""
    node.add("app", 0)
    node.add("it", 2, policy="exclusive", tier=Tier.GUARANTEED)
    node.once()
    node.take_offline(1)
    node.once()
    held = CpuSet.parse(node.effective("it", 0))
    assert len(held) == 2
    assert 1 not in held
    assert CpuSet.parse(node.effective("app", 0)) == CpuSet.of({0, 2, 3, 4, 5, 6, 7} - set(held))
    assert not node.once().outcomes


@pytest.mark.parametrize("gone", [2, 5])
def test_a_cpu_that_goes_offline_is_nobodys_write(node: PinnedNode, gone: int) -> None:
    """On v1 the kernel takes it from every set."""
    node.add("app", 0)
    node.add("it", 2, policy="exclusive", tier=Tier.GUARANTEED)
    node.once()
    node.take_offline(gone)
    assert not node.once().story.notes
    node.take_offline()
    assert not node.once().story.notes
    node.annotate("it", "none")
    node.once()
    assert len({cpus for _, cpus in node.leaves()}) == 1
    assert not node.once().outcomes


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("gone", [2, 5])
def test_release_after_a_cpu_went_offline(
    node: PinnedNode, gone: int, back: bool, seen: bool
) -> None:
    """A holder's or everybody's, whether the agent saw it, and whether the CPU came back: every
    group has all that its parent has, and nothing is left over."""
    node.add("app", 0)
    node.add("it", 2, policy="exclusive", tier=Tier.GUARANTEED)
    node.once()
    node.take_offline(gone)
    if seen:
        node.once()
    if back:
        node.take_offline()
    outcomes = node.bed.alive().actuator.release()
    assert not [each for each in outcomes if each.result not in DONE]
    lasts = back and node.kernel.version(CPUS) is V2
    everything = set(range(8)) - (set() if lasts else {gone})
    assert {cpus for _, cpus in node.leaves()} == {CpuSet.of(everything)}


def test_a_cpu_that_is_reserved_later_is_given_up_alone(node: PinnedNode) -> None:
    node.add("app", 0)
    node.add("it", 2, policy="exclusive")
    node.once()
    node.set_machine(machine(), "0,2")
    assert not remarks(node.once())
    assert node.effective("it", 0) == "1,3"
    assert node.effective("app", 0) == "0,2,4-7"


def test_release_puts_everything_back(node: PinnedNode) -> None:
    node.add("app", 0)
    node.add("alone", 2, 1, policy="exclusive", tier=Tier.GUARANTEED)
    before = node.values()
    node.once()
    assert node.values() != before
    node.bed.alive().actuator.release()
    assert node.values() == before


STEP = st.one_of(
    st.tuples(
        st.just("add"),
        st.lists(st.integers(0, 3), min_size=1, max_size=2),
        st.sampled_from(("", "none", "share", "exclusive")),
        st.sampled_from((Tier.GUARANTEED, Tier.BURSTABLE, Tier.BESTEFFORT)),
    ),
    st.tuples(st.just("annotate"), st.integers(0), st.sampled_from(("none", "share", "exclusive"))),
    st.tuples(st.just("remove"), st.integers(0)),
    st.tuples(st.just("kill")),
    st.tuples(st.just("nothing")),
)


def take(node: PinnedNode, number: int, step: tuple[Any, ...]) -> None:
    names = node.names()
    match step:
        case "add", sizes, policy, tier:
            node.add(f"p{number}", *sizes, policy=policy, tier=tier)
        case "annotate", which, policy if names:
            node.annotate(names[which % len(names)], policy)
        case "remove", which if names:
            node.remove(names[which % len(names)])
        case ("kill",):
            node.bed.start()


@given(steps=st.lists(STEP, min_size=1, max_size=10))
@few(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_laws(version: CgroupVersion, steps: list[tuple[Any, ...]]) -> None:
    """No write is refused, which `once` sees to; what an exclusive container has is nobody else's,
    and stays while it asks for it; a tick in which nothing happened changes nothing."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        node = PinnedNode(folder, version)
        before: dict[str, CpuSet] = {}
        for number, step in enumerate(steps):
            take(node, number, step)
            record = node.once()
            check(node, record)
            now = {name: each.cpus for name, each in placed(record).items() if each.cpus}
            assert {name: now[name] for name in now if name in before} == {
                name: before[name] for name in now if name in before
            }
            before = now
            assert not node.once().outcomes
        for name in node.names():
            node.annotate(name, "none")
        node.once()
        node.once()
        assert all(cpus == CpuSet.of(range(8)) for _, cpus in node.leaves())
        node.bed.alive().end()


def check(node: PinnedNode, record: TickRecord) -> None:
    claims = placed(record).values()
    mine = {each.claim.target.id: each for each in claims if each.cpus}
    taken = CpuSet()
    for each in mine.values():
        assert not each.cpus & taken
        assert 0 not in each.cpus
        assert len(each.cpus) == each.claim.count
        taken |= each.cpus
    alone = CpuSet()
    for each in mine.values():
        alone |= each.cpus if each.claim.policy is CpuPolicy.EXCLUSIVE else CpuSet()
    for ref, cpus in node.leaves():
        if ref.id in mine:
            assert cpus == mine[ref.id].cpus
        else:
            assert cpus == CpuSet.of(range(8)) - alone
