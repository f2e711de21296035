"""A deleted ConfigMap: held for a while, then let go in steps, on each node."""

import msgspec
import pytest

from slackwater.agent.program import Agent
from slackwater.agent.withdrawn_settings import WithdrawnSettings, loosen
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.knob import QUOTA
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.observation.objects.object_set import Objects
from slackwater.record.journal import TickRecord
from tests.unit.agent.test_program import ON, Bench, at
from tests.unit.policies.nodes import BESTEFFORT, FREE, SECOND

HOLD = Micros(30 * SECOND)
FREE_QUOTA = Bandwidth(UNLIMITED)
GONE = Objects(warnings=("settings are gone",))


def held(number: int, knob: str = "quota", ours: object = Bandwidth(Micros(20_000))) -> Held:
    ref = CgroupRef(f"kubepods/pod{number}", number, Level.POD)
    return msgspec.structs.replace(Held(ref, knob, FREE_QUOTA, FREE_QUOTA, Micros(0)), ours=ours)


# Held.


def test_what_is_gone_stays_as_long_as_a_policy_without_data() -> None:
    settings = WithdrawnSettings()
    assert settings.keep(ON, at(0), HOLD) is ON
    kept = settings.keep(GONE, at(1), HOLD)
    assert kept.settings == ON.settings
    assert "ConfigMap slackwater-agent is gone" in kept.problems[0].sentence()
    assert settings.keep(GONE, at(20), HOLD) is kept, "nothing to resolve anew"
    assert settings.keep(GONE, at(31), HOLD) is GONE
    assert settings.loosened_until == at(61)


@pytest.mark.parametrize("second", [5, 40])
def test_one_that_comes_back_ends_it(second: int) -> None:
    settings = WithdrawnSettings()
    settings.keep(ON, at(0), HOLD)
    settings.keep(GONE, at(1), HOLD)
    settings.keep(GONE, at(31), HOLD) if second > 31 else None
    assert settings.keep(ON, at(second), HOLD) is ON
    assert settings.loosened_until is None
    assert settings.keep(GONE, at(second + 1), HOLD).settings == ON.settings, "held from anew"


def test_without_any_before_there_is_nothing_to_hold() -> None:
    settings = WithdrawnSettings()
    assert settings.keep(GONE, at(0), HOLD) is GONE
    assert settings.loosened_until is None


# Loosened.


def test_quotas_rise_evenly_and_are_let_go_at_the_end() -> None:
    limit, seen = 20_000, []
    for left in range(9, -1, -1):
        standing = held(1, ours=Bandwidth(Micros(limit)))
        now = loosen([standing], {}, Micros(left * SECOND), Micros(SECOND), MilliCpu(4000))
        if now.releases:
            assert (now.changes, left) == ((), 0)
            break
        [change] = now.changes
        assert isinstance(change.new, Bandwidth)
        assert isinstance(change.new.limit, int)
        seen.append(change.new.limit - limit)
        limit = change.new.limit
    assert len(seen) == 9
    assert max(seen) - min(seen) <= 1
    assert limit < 400_000


def test_towards_a_baseline_that_is_a_limit() -> None:
    standing = msgspec.structs.replace(held(1), baseline=Bandwidth(Micros(40_000)))
    now = loosen([standing], {}, Micros(SECOND), Micros(SECOND), MilliCpu(4000))
    assert [change.new for change in now.changes] == [Bandwidth(Micros(30_000))]


def test_one_above_what_it_goes_to_is_let_go_at_once() -> None:
    standing = held(1, ours=Bandwidth(Micros(900_000)))
    now = loosen([standing], {}, Micros(9 * SECOND), Micros(SECOND), MilliCpu(4000))
    assert (now.releases, now.changes) == ((standing,), ())


def test_everything_else_goes_in_portions() -> None:
    left, ticks = [held(n, "weight", 5) for n in range(100)], []
    for remaining in range(9, -1, -1):
        now = loosen(left, {}, Micros(remaining * SECOND), Micros(SECOND), MilliCpu(4000))
        ticks.append(len(now.releases))
        left = [each for each in left if each not in now.releases]
    assert ticks == [10] * 10


# The whole loop.


def test_nothing_is_loose_in_one_second() -> None:
    bench = Bench()
    dependencies = msgspec.structs.replace(bench.agent._dependencies, origin="cluster")
    bench.agent = Agent(dependencies, bench.lines.append)
    bench.agent.start_waiting(at(0))
    bench.agent.once(at(1))
    ours = Bandwidth(Micros(20_000))
    bench.kept = (Held(BESTEFFORT, QUOTA.name, FREE, ours, Micros(0)),)
    assert isinstance(bench.view, NodeSnapshot)
    reading = bench.view.readings[BESTEFFORT.id]
    throttled = {BESTEFFORT.id: msgspec.structs.replace(reading, quota=ours)}
    bench.view = msgspec.structs.replace(bench.view, readings={**bench.view.readings, **throttled})
    bench.objects = GONE
    bench.applied.clear()
    for second in range(2, 31):
        record = bench.agent.once(at(second))
        assert isinstance(record, TickRecord)
        assert "best_effort_share" in record.inputs.policies, "held"
        assert bench.released == 0
    loosened_from = len(bench.applied)
    for second in range(32, 61):
        bench.agent.once(at(second))
        assert bench.released == 0, second
    raises = bench.applied[loosened_from:]
    assert len(raises) == 29
    bench.agent.once(at(62))
    assert bench.released == 1


def test_a_folder_is_somebodys_own_hand() -> None:
    bench = Bench()
    bench.agent.start(at(0))
    bench.agent.once(at(1))
    bench.kept = (Held(BESTEFFORT, QUOTA.name, FREE, Bandwidth(Micros(20_000)), Micros(0)),)
    bench.objects = GONE
    bench.agent.once(at(2))
    assert bench.released == 1
