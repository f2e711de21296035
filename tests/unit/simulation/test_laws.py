"""Laws of the fake kernel, over random trees, settings and demands."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, CPUS, IDLE, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.plan import Change, Result
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited, percent
from slackwater.resolution.ordering import order_for_kernel
from slackwater.simulation.demand import Demand, Square, Steady
from slackwater.simulation.fake_kernel import FakeKernel
from tests.unit.simulation.nodes import SECOND, V1, V2, burn, lost, made, put, quota, run, times

pytestmark = pytest.mark.long

TREE = ("k", "k/a", "k/b", "k/a/1", "k/a/2", "k/b/3", "k/b/4")
LEAVES = TREE[3:]
CPUS_THERE = 4
PERIODS = (20_000, 50_000, 100_000)

LEVELS = st.integers(0, 3000).map(MilliCpu)
DEMANDS: st.SearchStrategy[Demand] = st.one_of(
    st.builds(Steady, LEVELS),
    st.builds(
        Square,
        st.integers(30_000, 900_000).map(Micros),
        st.integers(0, 100).map(percent),
        LEVELS,
        LEVELS,
    ),
)
QUOTAS = st.builds(quota, st.integers(1_000, 300_000), st.sampled_from(PERIODS))


Setting = tuple[str, Knob, KnobValue]
Work = tuple[str, Demand, int]


class Node:
    """A v2 kernel with settings and work of every kind."""

    def __init__(self, puts: list[Setting], work: list[Work]) -> None:
        self._made_of = (puts, work)
        self.kernel = FakeKernel(V2, CPUS_THERE)
        self.refs = dict(zip(TREE, made(self.kernel, *TREE), strict=True))
        for path, knob, value in puts:
            put(self.kernel, self.refs[path], knob, value)
        for path, demand, threads in work:
            run(self.kernel, self.refs[path], demand, threads)
        #: The quota, and how much more once.
        self.bounds = {p: (value, 0) for p, _, value in puts if isinstance(value, Bandwidth)}
        for path, knob, value in puts:
            if knob == BURST and isinstance(value, int):
                self.bounds[path] = (self.bounds[path][0], value)

    def twin(self) -> "Node":
        return Node(*self._made_of)

    def used(self) -> dict[str, int]:
        return {path: times(self.kernel, ref).usage for path, ref in self.refs.items()}


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    puts: list[Setting] = [(path, WEIGHT, draw(st.integers(1, 10_000))) for path in TREE]
    for path in TREE:
        if draw(st.booleans()):
            limit = draw(QUOTAS)
            assert isinstance(limit.limit, int)
            burst = draw(st.sampled_from((0, limit.limit // 2, limit.limit)))
            puts += [(path, QUOTA, limit), (path, BURST, burst)]
    for path in LEAVES:
        if draw(st.integers(0, 3)) == 0:
            puts.append((path, CPUS, CpuSet(draw(st.integers(1, 15)))))
    work = [(path, draw(DEMANDS), draw(st.integers(1, 4))) for path in LEAVES]
    return Node(puts, work)


FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPANS = st.lists(st.sampled_from((10_000, 100_000, 170_000, 1_000_000)), min_size=1, max_size=6)


@FEW
@given(nodes(), SPANS)
def test_never_more_cpu_than_there_is(node: Node, spans: list[int]) -> None:
    for span in spans:
        before = node.used()["k"]
        node.kernel.advance(Micros(span))
        assert node.used()["k"] - before <= CPUS_THERE * span + 1


@FEW
@given(nodes(), SPANS)
def test_a_parent_uses_what_its_children_use(node: Node, spans: list[int]) -> None:
    for span in spans:
        node.kernel.advance(Micros(span))
    used = node.used()
    for path in ("k", "k/a", "k/b"):
        below = [u for other, u in used.items() if other.rpartition("/")[0] == path]
        assert sum(below) <= used[path] <= sum(below) + len(below)


@FEW
@given(nodes(), st.integers(0, 12), st.integers(1, 12))
def test_no_window_of_whole_periods_holds_more_than_the_quota(
    node: Node, skip: int, length: int
) -> None:
    """And one burst, however long the window is."""
    span = length * 100_000
    node.kernel.advance(Micros(skip * 100_000))
    before = node.used()
    node.kernel.advance(Micros(span))
    after = node.used()
    for path, (limit, burst) in node.bounds.items():
        assert isinstance(limit.limit, int)
        allowed = limit.limit * span // limit.period + burst
        assert after[path] - before[path] <= allowed + 1, path


@FEW
@given(nodes(), SPANS)
def test_counters_only_rise_and_agree(node: Node, spans: list[int]) -> None:
    for span in spans:
        before = {path: times(node.kernel, ref) for path, ref in node.refs.items()}
        node.kernel.advance(Micros(span))
        for path, old in before.items():
            new = times(node.kernel, node.refs[path])
            assert new.usage >= old.usage
            assert new.periods >= old.periods
            assert new.throttled >= old.throttled
            assert new.throttled_periods <= new.periods
            if path not in node.bounds:
                assert new.periods == new.bursts == 0


@FEW
@given(nodes(), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_a_long_stretch_is_the_sum_of_short_ones(node: Node, periods: list[int]) -> None:
    """Rounds that are alike are counted, not run: nothing may show it."""
    twin = node.twin()
    node.kernel.advance(Micros(sum(periods) * 100_000))
    for count in periods:
        twin.kernel.advance(Micros(count * 100_000))
    for path, ref in node.refs.items():
        at = node.kernel.now
        assert node.kernel.reading(ref, at) == twin.kernel.reading(twin.refs[path], at)
        assert node.kernel.lost(ref) == twin.kernel.lost(twin.refs[path])


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=8))
def test_no_cpu_stands_still_while_work_waits(levels: list[int]) -> None:
    kernel = FakeKernel(V2, CPUS_THERE)
    refs = made(kernel, *(f"pod{n}" for n in range(len(levels))))
    for ref, level in zip(refs, levels, strict=True):
        run(kernel, ref, Steady(MilliCpu(level)))
    kernel.advance(SECOND)
    used = kernel.node_usage().usage
    assert used == min(sum(levels), 1000 * CPUS_THERE) * 1000
    missing = sum(levels) * 1000 - used
    assert abs(sum(lost(kernel, ref) for ref in refs) - missing) <= len(refs)


@given(st.lists(st.integers(10, 10_000), min_size=2, max_size=8))
def test_weights_are_respected_within_a_hundredth(weights: list[int]) -> None:
    kernel = FakeKernel(V2, CPUS_THERE)
    refs = made(kernel, *(f"pod{n}" for n in range(len(weights))))
    for ref, weight in zip(refs, weights, strict=True):
        put(kernel, ref, WEIGHT, weight)
        burn(kernel, ref, CPUS_THERE)
    kernel.advance(SECOND)
    for ref, weight in zip(refs, weights, strict=True):
        want = CPUS_THERE * SECOND * weight / sum(weights)
        assert times(kernel, ref).usage == pytest.approx(want, rel=0.01)


@given(st.lists(st.sampled_from(("a", "b", "c")), max_size=30))
def test_an_id_is_never_used_twice(paths: list[str]) -> None:
    kernel = FakeKernel(V1, 1)
    standing: dict[str, CgroupRef] = {}
    seen: set[int] = {kernel.root().id}
    for path in paths:
        gone = standing.pop(path, None)
        if gone is not None:
            assert kernel.remove(gone).result is Result.APPLIED
            continue
        standing[path] = kernel.make(path)
        assert standing[path].id not in seen
        seen.add(standing[path].id)


# A plan on v1, from any valid state to any other.

State = dict[str, dict[Knob, KnobValue]]


@st.composite
def states(draw: st.DrawFn) -> State:
    """One period for all, as a kubelet has: with two files for one bandwidth, v1 refuses some
    ways between periods (test_the_way_between_two_periods_may_be_closed)."""
    state: State = {}
    ceilings: dict[str, int | Unlimited] = {"": UNLIMITED}
    for path in TREE:
        above = path.rpartition("/")[0]
        ceiling, room = ceilings[above], CpuSet(15)
        if above:
            shown = state[above][CPUS]
            room = shown if isinstance(shown, CpuSet) else room
        most = 400_000 if isinstance(ceiling, Unlimited) else ceiling
        limit = draw(st.none() | st.integers(1_000, max(most, 1_000)))
        ceilings[path] = ceiling if limit is None else limit
        idle = draw(st.booleans())
        state[path] = {
            QUOTA: Bandwidth(UNLIMITED) if limit is None else quota(limit),
            BURST: draw(st.integers(0, 10**6 if limit is None else limit)),
            CPUS: CpuSet(draw(st.integers(1, 15)) & room.mask or room.mask),
            IDLE: idle,
            WEIGHT: 3 if idle else draw(st.integers(2, 9_999)),
        }
    return state


def changes_to(kernel: FakeKernel, refs: dict[str, CgroupRef], state: State) -> list[Change]:
    """An idle group's weight is the kernel's, and one that leaves idle has to be given its own."""
    changes = []
    for path, values in state.items():
        for knob, new in values.items():
            old = kernel.read(refs[path], knob)
            assert not isinstance(old, Gap)
            leaves_idle = kernel.read(refs[path], IDLE) is True and values[IDLE] is False
            if knob == WEIGHT and (values[IDLE] or not (leaves_idle or old != new)):
                continue
            if old != new or knob == WEIGHT:
                changes.append(Change(refs[path], knob, old, new))
    return changes


@settings(max_examples=100, deadline=None)
@given(st.lists(states(), min_size=1, max_size=4))
def test_no_plan_in_the_kernels_order_is_refused(plans: list[State]) -> None:
    kernel = FakeKernel(V1, 4)
    refs = dict(zip(TREE, made(kernel, *TREE), strict=True))
    for leaf in LEAVES:
        burn(kernel, refs[leaf])
    for state in plans:
        for change in order_for_kernel(changes_to(kernel, refs, state)):
            outcome = kernel.write(change)
            assert outcome.result in (Result.APPLIED, Result.UNCHANGED), outcome
        assert changes_to(kernel, refs, state) == []
        kernel.advance(Micros(50_000))


def test_the_way_between_two_periods_may_be_closed() -> None:
    """A pod between a tier at 0.6 and a box at 0.5 is to go from 0.5 to 0.55 by a longer period.
    Between the two files of v1 stands 0.25 or 1.1: the kernel refuses both (test_rules)."""
    kernel = FakeKernel(V1, 4)
    tier, pod, box = made(kernel, "tier", "tier/pod", "tier/pod/box")
    put(kernel, tier, QUOTA, quota(60_000))
    for ref in (pod, box):
        put(kernel, ref, QUOTA, quota(50_000))
    wider = Change(pod, QUOTA, quota(50_000), quota(110_000, 200_000))
    assert [kernel.write(c).result for c in order_for_kernel([wider])] == [Result.REFUSED]
    assert kernel.read(pod, QUOTA) == quota(50_000)
