"""A tick with a cache gives what it gives without one, whatever happens on the node."""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as few
from hypothesis import strategies as st

from slackwater.agent import program
from slackwater.agent.tick import TickCache, TickMemory, TickResult, tick
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.resolution import nesting
from slackwater.settings.agent_settings import AgentSettings
from slackwater.simulation.demand import Steady
from slackwater.simulation.scenario import ScenarioPod
from tests.unit.simulation.mortal import MEMORY, Bed
from tests.unit.simulation.test_handlers import BATCH_CPU, BATCH_MEMORY, NAMES, SAID, chosen

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
PODS = 10
#: Less than these: raises past them wait (resolution.nesting).
AT_ONCE = 8


def batch_pod(name: str, box: str, limit: int, said: Mapping[str, str]) -> Pod:
    amounts = {BATCH_CPU: str(limit), BATCH_MEMORY: str(limit * 2**20)}
    document = {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, "annotations": dict(said)},
        "spec": {"containers": [{"name": "c", "resources": {"limits": amounts}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c", "containerID": box}]},
    }
    return read_pod(document, "a test")


class Crowd:
    """Best-effort pods with batch resources, and work in another tier that moves the quota."""

    def __init__(self, folder: str, version: CgroupVersion) -> None:
        self.bed = Bed(folder, version, 4, chosen())
        kernel = self.bed.node.kernel
        self.refs: list[CgroupRef] = []
        self.pods: list[Pod] = []
        for number in range(PODS):
            name, box = f"job-{number}", f"{number:064x}"
            path = f"kubepods/besteffort/pod{name}"
            self.refs.append(kernel.make(path, Level.POD, Tier.BESTEFFORT, name))
            inner = kernel.make(f"{path}/{box}", Level.CONTAINER, Tier.BESTEFFORT, name)
            self.refs.append(inner)
            self.pods.append(batch_pod(name, box, 400, SAID))
        self.show()

    def show(self) -> None:
        objects = self.bed.source.objects
        self.bed.source.objects = msgspec.structs.replace(objects, pods=tuple(self.pods))

    def ask(self, number: int, limit: int, said: Mapping[str, str]) -> None:
        self.pods[number] = batch_pod(f"job-{number}", f"{number:064x}", limit, said)
        self.show()

    def work(self, number: int, milli: int) -> None:
        self.bed.node.add(
            ScenarioPod(f"web-{number}", Tier.BURSTABLE, Steady(MilliCpu(milli)), MilliCpu(0))
        )


STEP = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 12)),
    st.tuples(st.just("settings"), st.sets(st.sampled_from(NAMES))),
    st.tuples(
        st.just("ask"),
        st.integers(0, PODS - 1),
        st.sampled_from((0, 5, 100, 700, 5000)),
        st.sets(st.sampled_from(sorted(SAID))),
    ),
    st.tuples(st.just("rival"), st.integers(0, 2 * PODS - 1), st.sampled_from((-1, 2_000, 90_000))),
    st.tuples(st.just("weight"), st.integers(0, 2 * PODS - 1), st.sampled_from((2, 100))),
    st.tuples(st.just("work"), st.sampled_from((100, 900, 3000))),
    st.tuples(st.just("early")),
)


@pytest.mark.parametrize("version", [V1, V2])
@given(steps=st.lists(STEP, max_size=12))
@few(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_with_and_without_a_cache(version: CgroupVersion, steps: list[tuple[Any, ...]]) -> None:
    compared = 0

    def both(
        snapshot: NodeSnapshot,
        memory: TickMemory,
        policies: Sequence[Policy],
        settings: Mapping[str, Any],
        agent: AgentSettings,
        cache: TickCache,
    ) -> TickResult:
        nonlocal compared
        compared += 1
        done = tick(snapshot, memory, policies, settings, agent, cache)
        assert done == tick(snapshot, memory, policies, settings, agent)
        return done

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        patch.setattr(program, "tick", both)
        patch.setattr(nesting, "AT_ONCE", AT_ONCE)
        crowd = Crowd(folder, version)
        crowd.bed.set(chosen(*NAMES))
        for step in (("pass", 3), *steps, ("pass", 7)):
            take(crowd, step)
        assert compared >= 10
        crowd.bed.alive().end()


def take(crowd: Crowd, step: tuple[Any, ...]) -> None:
    bed = crowd.bed
    match step:
        case "pass", ticks:
            for _ in range(ticks):
                bed.once()
        case "settings", names:
            bed.set(chosen(*names))
        case "ask", number, limit, said:
            crowd.ask(number, limit, {key: SAID[key] for key in said})
        case "rival", number, quota:
            limit = Bandwidth(UNLIMITED) if quota < 0 else Bandwidth(Micros(quota))
            bed.node.put(crowd.refs[number], QUOTA, limit)
        case "weight", number, weight:
            bed.node.put(crowd.refs[number], WEIGHT, weight)
        case "work", milli:
            crowd.work(len(bed.node.pods), milli)
        case _:
            bed.once(early=True)


class Blind:
    """A snapshot without what policies that ignore counters must not look at."""

    _HIDDEN = frozenset(
        {"tick", "at", "elapsed", "allocatable", "usage", "rates", "pressure", "early", "sources"}
        | {"held", "precision"}
    )

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self._snapshot = snapshot

    def __getattr__(self, name: str) -> Any:
        assert name not in self._HIDDEN, f"it looks at {name}"
        if name == "readings":
            below = (Level.POD, Level.CONTAINER)
            readings = self._snapshot.readings.items()
            return {key: each for key, each in readings if each.ref.level in below}
        return getattr(self._snapshot, name)


@pytest.mark.parametrize("version", [V1, V2])
def test_who_ignores_counters_does_not_look_at_them(version: CgroupVersion) -> None:
    seen = 0
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=MEMORY) as folder:

        def watched(snapshot: NodeSnapshot, *rest: Any) -> TickResult:
            nonlocal seen
            _, policies, settings = rest[:3]
            for policy in policies:
                if policy.ignores_counters and policy.name in settings:
                    policy.decide(Blind(snapshot), policy.first_memory, settings[policy.name])
                    seen += 1
            return tick(snapshot, *rest)

        patch.setattr(program, "tick", watched)
        crowd = Crowd(folder, version)
        crowd.bed.set(chosen(*NAMES))
        take(crowd, ("pass", 3))
        crowd.bed.alive().end()
    # All but normalization, which is off without the Node's ratio.
    assert seen == 3 * (sum(policy.ignores_counters for policy in POLICIES) - 1)


def test_a_quiet_tick_asks_no_policy_that_ignores_counters() -> None:
    asked: list[str] = []

    def counting(policy: Policy) -> Policy:
        def decide(*arguments: Any) -> Any:
            asked.append(policy.name)
            return policy.decide(*arguments)

        return msgspec.structs.replace(policy, decide=decide)

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        crowd = Crowd(folder, V2)
        crowd.bed.set(chosen(*NAMES))
        take(crowd, ("pass", 12))
        agent = crowd.bed.alive().agent
        counted = tuple(map(counting, POLICIES))
        agent._dependencies = msgspec.structs.replace(agent._dependencies, policies=counted)
        take(crowd, ("pass", 3))
        crowd.bed.alive().end()
    assert asked == ["best_effort_share", "oversold"] * 3
