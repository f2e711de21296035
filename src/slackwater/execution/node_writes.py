"""When the Node is written: at once after a start, then when something changed. Pure.

Owns what counts as a change, and the pace: at most one write a minute, one in five minutes where
nothing changed (as the kubelet does), fewer where the server refuses. A change that people wait
for may come before its minute is over, once a minute.
"""

from collections.abc import Mapping

import msgspec

from slackwater.contract.node_condition import NodeFace
from slackwater.contract.node_report import NodeReport
from slackwater.model.units import Micros, MilliCpu, Ratio, Unlimited

_SECOND = 1_000_000
#: Between two writes.
APART = Micros(60 * _SECOND)
#: The same for a policy that went on or off, a problem that came or went.
HASTE = Micros(5 * _SECOND)
#: kubelet's nodeStatusReportFrequency: who reads the report can tell an agent that is gone.
RENEWED = Micros(300 * _SECOND)
FIRST_WAIT, LONGEST_WAIT = 2 * _SECOND, 300 * _SECOND
#: Usage and quota that moved by less of the machine are not news.
GRAIN = Ratio(1, 20)
#: So is a number of held values that moved by less of it.
_PART = Ratio(1, 10)


class Pace(msgspec.Struct, frozen=True):
    """`written` is when the Node was last written by this process, `hasty` when it was last
    written before its minute was over."""

    written: Micros | None = None
    hasty: Micros | None = None
    failures: int = 0
    not_before: Micros = Micros(0)


def due_at(wanted: NodeFace, seen: NodeFace | None, pace: Pace, grain: MilliCpu) -> Micros:
    """When the Node is to be written, if nothing else happens. `seen` is what it shows now."""
    if pace.written is None:
        return pace.not_before
    wait = APART if seen is None or differs(wanted, seen, grain) else RENEWED
    due = pace.written + wait
    if seen is not None and is_awaited(wanted, seen):
        hasty = 0 if pace.hasty is None else pace.hasty + APART
        due = min(due, max(pace.written + HASTE, hasty))
    return Micros(max(due, pace.not_before))


def is_awaited(wanted: NodeFace, seen: NodeFace) -> bool:
    """Whether a person may be sitting there, waiting for just this."""
    return _rest(wanted.report) != _rest(seen.report) or wanted.acting.status != seen.acting.status


def differs(wanted: NodeFace, seen: NodeFace, grain: MilliCpu) -> bool:
    """Whether it is worth a write."""
    one, other = wanted.acting, seen.acting
    if (one.status, one.reason, one.message) != (other.status, other.reason, other.message):
        return True
    mine, theirs = wanted.report, seen.report
    return (
        _rest(mine) != _rest(theirs)
        or _moved(mine.quota, theirs.quota, grain)
        or _moved(mine.used, theirs.used, grain)
        or _moved(mine.holding, theirs.holding, _PART.of(mine.holding or 0))
    )


def _rest(report: NodeReport) -> tuple[str | None, str | None, Mapping[str, str], tuple[str, ...]]:
    """What is compared as it is."""
    return report.version, report.period, report.policies, report.problems


def _moved(one: int | Unlimited | None, other: int | Unlimited | None, grain: int) -> bool:
    """By the grain at least; none, some and unlimited are worlds apart."""
    if isinstance(one, int) and isinstance(other, int) and bool(one) == bool(other):
        return abs(one - other) >= max(grain, 1)
    return one != other


def written(at: Micros, before: Pace) -> Pace:
    was_hasty = before.written is not None and at < before.written + APART
    return Pace(written=at, hasty=at if was_hasty else before.hasty)


def refused(pace: Pace, at: Micros, retry_after: float | None, chance: float) -> Pace:
    """The next attempt later and later, as the server asks at least. `chance` is from 0 to 1:
    a thousand agents shall not come back together."""
    wait = min(FIRST_WAIT << min(pace.failures, 20), LONGEST_WAIT)
    spread = int(wait * (0.5 + chance))
    asked = int((retry_after or 0) * _SECOND)
    later = Micros(at + max(spread, asked))
    return Pace(pace.written, pace.hasty, pace.failures + 1, later)
