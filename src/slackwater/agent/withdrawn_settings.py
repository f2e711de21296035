"""Settings that were deleted: they stay for a while, and then what they held is loosened in steps.

A ConfigMap is gone for seconds when it is replaced by force, or pruned and made again. Without this
every node would let its best-effort work loose in the same second. Switching a policy off in the
settings is somebody's word, and takes effect at once.
"""

from collections.abc import Mapping, Sequence

import msgspec

from slackwater.model.cgroup import CgroupReading
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Change
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Held
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.observation.objects.object_set import SETTINGS_MAP, Objects

_NAMES = {"settings": SETTINGS_MAP, "colocation": "volcano-agent-configuration"}


class Loosening(msgspec.Struct, frozen=True):
    """What is let go in one tick, and the quotas that rise."""

    releases: tuple[Held, ...]
    changes: tuple[Change, ...]


class WithdrawnSettings:
    """What the settings said before they were deleted, and until when their values are loosened."""

    def __init__(self) -> None:
        self._last = Objects()
        self._gone_since: Micros | None = None
        self._given: tuple[Objects, Objects] | None = None
        #: While values go back step by step.
        self.loosened_until: Micros | None = None

    def keep(self, found: Objects, at: Micros, hold_for: Micros) -> Objects:
        """The objects to go by: with the settings that are missing, for as long as they stay."""
        gone = {
            name: said
            for name in _NAMES
            if getattr(found, name) is None and (said := getattr(self._last, name)) is not None
        }
        if not gone:
            if found.settings is not None or found.colocation is not None:
                self.loosened_until = None
            self._last, self._gone_since, self._given = found, None, None
            return found
        if self._gone_since is None:
            self._gone_since = at
        if at - self._gone_since >= hold_for:
            self._last, self._gone_since, self._given = found, None, None
            self.loosened_until = Micros(at + hold_for)
            return found
        if self._given is None or self._given[0] is not found:
            names = " and ".join(_NAMES[name] for name in gone)
            stays = f"what it said stays for {hold_for // 1_000_000} s, then it is let go in steps"
            problem = ConfigurationProblem(f"the ConfigMap {names} is gone", consequence=stays)
            problems = (*found.problems, problem)
            kept = msgspec.structs.replace(found, **gone, problems=problems)
            self._given = found, kept
        return self._given[1]


def loosen(
    releases: Sequence[Held],
    readings: Mapping[int, CgroupReading],
    left: Micros,
    period: Micros,
    machine: MilliCpu,
) -> Loosening:
    """One tick's part of what is to be let go within `left`: quotas rise evenly towards their
    baseline or the whole machine, everything else goes in even portions."""
    ticks = max(left // period, 0) + 1
    quotas = [each for each in releases if _is_limited(each)]
    others = [each for each in releases if not _is_limited(each)]
    going = others[: -(-len(others) // ticks)]
    changes: list[Change] = []
    for held in quotas:
        change = _raised(held, readings, ticks, machine)
        if change is None:
            going.append(held)
        else:
            changes.append(change)
    return Loosening(tuple(going), tuple(changes))


def _is_limited(held: Held) -> bool:
    ours = held.ours
    limited = isinstance(ours, Bandwidth) and not isinstance(ours.limit, Unlimited)
    return held.knob == QUOTA.name and limited


def _raised(
    held: Held, readings: Mapping[int, CgroupReading], ticks: int, machine: MilliCpu
) -> Change | None:
    """None where it is as high as it gets: then it is let go."""
    reading = readings.get(held.ref.id)
    shown = reading.quota if reading is not None else held.ours
    if not isinstance(shown, Bandwidth) or isinstance(shown.limit, Unlimited) or ticks <= 1:
        return None
    target = machine * shown.period // 1000
    if isinstance(held.baseline, Bandwidth) and not isinstance(held.baseline.limit, Unlimited):
        target = held.baseline.limit * shown.period // held.baseline.period
    step = -(-(target - shown.limit) // ticks)
    if step <= 0:
        return None
    return Change(held.ref, QUOTA, shown, Bandwidth(Micros(shown.limit + step), shown.period))
