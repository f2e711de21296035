"""QoS ensurance in the tick, over thousands of ticks: nothing is left behind when nobody asks."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.agent.tick import TickCache, TickMemory, TickResult, tick
from slackwater.model.cgroup import CgroupReading, CgroupVersion, Tier
from slackwater.model.decision import CommandKind
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobValue
from slackwater.model.plan import CommandProgress, CommandState
from slackwater.model.snapshot import Held
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.model.workload import Workload
from slackwater.policies.ensurance import watermark_relief
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkRules,
)
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.ensurance import (
    action,
    batch,
    bound,
    box,
    evict,
    readings,
    rule,
    seen,
    throttle,
)

USAGE, LOAD = "cpu_total_usage", "cpu_load_1_min"
POLICIES = (watermark_relief.POLICY,)
SERVICE = 1


class Node:
    """A node whose pods use what they want, as far as their quotas let them. Applies what the tick
    plans; an eviction takes three ticks, and its pod comes back under another uid."""

    def __init__(self, version: CgroupVersion) -> None:
        self.version = version
        self.pods: dict[int, Workload] = {SERVICE: batch(SERVICE, tier=Tier.BURSTABLE, priority=9)}
        self.demand: dict[int, int] = {SERVICE: 1000}
        self.readings: dict[int, CgroupReading] = {}
        self.held: dict[tuple[int, str], Held] = {}
        self.going: list[CommandProgress] = []
        self.memory, self.cache = TickMemory(), TickCache()
        self.standing: set[CommandKind] = set()
        self.second, self.last_number = 0, 0

    def add(self, demand: int, limit: int = 0, request: int = 0, **more: Any) -> int:
        self.last_number = number = max(self.last_number, SERVICE) + 1
        tier = Tier.BURSTABLE if limit or request else Tier.BESTEFFORT
        container = box(number, "c1", tier, min(request, limit or request), limit)
        self.pods[number] = batch(number, container, tier=tier, **more)
        self.demand[number] = demand
        return number

    def remove(self, number: int) -> None:
        del self.pods[number], self.demand[number]
        gone = {100 * number, 100 * number + 1}
        self.held = {key: held for key, held in self.held.items() if key[0] not in gone}
        self.going = [each for each in self.going if each.command.uid != str(number)]

    def used(self, number: int) -> int:
        reading = self.readings.get(100 * number + 1)
        quota = reading.quota if reading else Gap("new")
        limit = quota.milli() if isinstance(quota, Bandwidth) else UNLIMITED
        wanted = self.demand[number]
        return wanted if isinstance(limit, Unlimited) else min(wanted, limit)

    def tick(self, rules: WatermarkRules | None, *, lost: bool = False) -> TickResult:
        self.second += 1
        pods = tuple(self.pods.values())
        fresh = readings(pods)
        self.readings = {ref: self.readings.get(ref, reading) for ref, reading in fresh.items()}
        usages = {number: self.used(number) for number in self.pods}
        total = sum(usages.values())
        metrics: dict[str, Any] = {USAGE: Gap("lost") if lost else total, LOAD: total / 1000}
        snapshot = seen(
            self.second,
            *pods,
            usages=usages,
            metrics=metrics,
            version=self.version,
            held=tuple(self.held.values()),
            in_flight=tuple(self.going),
        )
        snapshot = msgspec.structs.replace(snapshot, readings=self.readings)
        on = {} if rules is None else {watermark_relief.NAME: rules}
        done = tick(snapshot, self.memory, POLICIES, on, AgentSettings(), self.cache)
        self.memory = done.memory
        self._apply(done)
        return done

    def _apply(self, done: TickResult) -> None:
        for told in done.story.told:
            assert not told.reason.startswith("failed"), told.reason
        for change in done.planned.changes:
            key = (change.ref.id, change.knob.name)
            before = self.held.get(key)
            baseline = before.baseline if before else change.old
            self.held[key] = Held(change.ref, change.knob.name, baseline, change.new, Micros(0))
            self._write(change.ref.id, change.knob.name, change.new)
        for held in done.planned.releases:
            self._write(held.ref.id, held.knob, held.baseline)
            del self.held[held.ref.id, held.knob]
        self.standing = {each.kind for each in done.planned.commands}
        for command in done.planned.commands:
            if command.kind is CommandKind.EVICT:
                state = CommandState.DONE
                self.going.append(CommandProgress(command, state, Micros(self.second)))
        for each in [one for one in self.going if self.second - one.since >= 3]:
            self.remove(int(each.command.uid))

    def _write(self, group: int, knob: str, value: KnobValue) -> None:
        self.readings[group] = msgspec.structs.replace(self.readings[group], **{knob: value})

    def is_as_before(self) -> bool:
        fresh = readings(tuple(self.pods.values()))
        same = all(self.readings[ref] == reading for ref, reading in fresh.items())
        return same and not self.held and not self.standing - {CommandKind.EVICT}


ACTIONS = (
    throttle("slow", cool_down=3, step=10, least=10),
    throttle("hard", cool_down=1, step=50, least=0),
    evict("out", cool_down=2),
    action("stop", 2),
)


def draw_rules(chance: random.Random) -> WatermarkRules | None:
    """Rules appear, change and go; sometimes an action is missing, or there is no rule at all."""
    made = [
        rule(
            name,
            metric=chance.choice([USAGE, USAGE, LOAD]),
            value=chance.choice([1, 2, 3000, 5000]),
            does=chance.choice(["slow", "hard", "out", "stop"]),
            counts=(chance.randint(1, 3), chance.randint(1, 3)),
            strategy=chance.choice(["None", "None", "None", "Preview"]),
        )
        for name in "abcd"[: chance.randint(0, 4)]
    ]
    if not made:
        return None
    known = tuple(each for each in ACTIONS if chance.random() < 0.9)
    return bound(*made, actions=known, demote=chance.random() < 0.8, settle=1_000_000)


def stir(node: Node, chance: random.Random) -> None:
    for number in node.demand:
        if chance.random() < 0.1:
            node.demand[number] = chance.randint(0, 4000)
    if len(node.pods) < 8 and chance.random() < 0.1:
        limit = chance.choice([0, 0, 1500])
        node.add(chance.randint(0, 3000), limit, chance.choice([0, 200]), priority=-5)
    elif len(node.pods) > 3 and chance.random() < 0.03:
        node.remove(chance.choice([each for each in node.pods if each != SERVICE]))


@pytest.mark.parametrize("version", list(CgroupVersion))
def test_5000_ticks_with_rules_that_come_and_go_leave_nothing_behind(
    version: CgroupVersion,
) -> None:
    chance = random.Random(version.value)  # noqa: S311
    node = Node(version)
    for _ in range(4):
        node.add(2000, priority=-5)
    rules = draw_rules(chance)
    acted = 0
    for second in range(5000):
        if chance.random() < 0.03:
            rules = draw_rules(chance)
        stir(node, chance)
        node.tick(rules, lost=chance.random() < 0.02)
        acted += bool(node.held or node.standing)
        if second % 500 == 499:
            node.tick(None)
            node.tick(None)
            assert node.is_as_before(), second
            assert node.memory.policies == {}
    assert acted > 1000


@pytest.mark.parametrize("version", list(CgroupVersion))
@given(
    demands=st.lists(st.integers(0, 4000), min_size=1, max_size=6),
    limits=st.lists(st.sampled_from([0, 500, 2000]), min_size=6, max_size=6),
    step=st.integers(1, 100),
    least=st.integers(0, 100),
    ticks=st.integers(1, 30),
)
@settings(max_examples=40, deadline=None)
def test_a_full_cycle_of_trigger_and_restore_ends_at_the_baseline(
    version: CgroupVersion,
    demands: list[int],
    limits: list[int],
    step: int,
    least: int,
    ticks: int,
) -> None:
    node = Node(version)
    rules = bound(rule(value=100), actions=(throttle(cool_down=1, step=step, least=least),))
    for demand, limit in zip(demands, limits, strict=False):
        node.add(demand, limit, priority=-5)
    for _ in range(ticks):
        node.tick(rules)
    assert node.memory.policies
    for number in node.demand:
        node.demand[number] = 0
    for _ in range(3000):
        if node.is_as_before():
            break
        node.tick(rules)
    assert node.is_as_before()
    [report] = node.tick(rules).story.told[0].rules
    assert report.state.value == "quiet"


def test_usage_settles_at_the_watermark_and_does_not_swing() -> None:
    """From its onset on, whatever the cool-down does: within 10 % below, and above only rarely."""
    node = Node(CgroupVersion.V2)
    for _ in range(4):
        node.add(2000, priority=-5)
    rules = bound(rule(value=6000, counts=(2, 2)), actions=(throttle(cool_down=5),))
    totals = []
    for _ in range(600):
        node.tick(rules)
        totals.append(sum(node.used(number) for number in node.pods))
    late = totals[60:]
    assert sum(each > 6000 for each in late) <= len(late) // 50
    assert min(late) >= 5400


def test_a_throttled_pod_goes_back_to_no_limit() -> None:
    node = Node(CgroupVersion.V1)
    number = node.add(6000, priority=-5)
    rules = bound(rule(value=2000), actions=(throttle(cool_down=1),))
    for _ in range(20):
        node.tick(rules)
    quota = node.readings[100 * number + 1].quota
    assert isinstance(quota, Bandwidth)
    assert quota.milli() != MilliCpu(6000)
    node.demand[number] = 100
    for _ in range(60):
        node.tick(rules)
    quota = node.readings[100 * number + 1].quota
    assert isinstance(quota, Bandwidth)
    assert isinstance(quota.milli(), Unlimited)
