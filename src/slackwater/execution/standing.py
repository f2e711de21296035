"""Whose value a noted knob shows: ours, the baseline, or somebody else's.

Owns the list of readings that follow from our own writes although nobody noted them so:

- half of a v1 quota: a limit and a period of two values that we noted (kill -9 in between);
- the union of two cpusets that we noted: a step of a release;
- the default weight where we hold or held idle: the kernel's at the end of idle;
- a weight that idle hides;
- a file beside its unit: what was set through the unit;
- anything, after a full disk kept our last values from the ledger (Ledger.is_old).

Every other reading is drift: somebody else wrote, and would want to find it there without us.
"""

import msgspec

from slackwater.execution.ledger import Ledger
from slackwater.execution.routes import Routes
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, QUOTA, WEIGHT, KnobValue
from slackwater.model.ledger import FILE_ROUTE, LedgerEntry, Standing
from slackwater.model.unit_property import DEFAULT_WEIGHT
from slackwater.model.units import Bandwidth


def standing_of(entry: LedgerEntry, text: str, ledger: Ledger, routes: Routes) -> Standing:
    """Of a knob that reads `text` now, in its route's spelling."""
    if entry.knob == WEIGHT.name and routes.is_idle(entry.ref):
        return Standing.OURS
    values = {each: routes.value(entry, each) for each in (entry.ours, entry.baseline)}
    if routes.shows(entry, text, values[entry.ours]):
        return Standing.OURS
    if routes.shows(entry, text, values[entry.baseline]):
        return Standing.BASELINE
    noted = _noted(entry, ledger, routes)
    if any(routes.shows(entry, text, value) for value in noted):
        return Standing.OURS
    reading = routes.value(entry, text)
    if _is_half_a_quota(reading, noted, routes) or _is_a_union(reading, noted):
        return Standing.OURS
    if ledger.is_old or was_reset(entry, text, ledger, routes):
        return Standing.OURS
    return Standing.DRIFT


def was_reset(entry: LedgerEntry, text: str, ledger: Ledger, routes: Routes) -> bool:
    """Whether this is a weight as the kernel leaves it when a group leaves idle.

    The entry of idle goes only after the weight is back, so that it tells: we were there.
    """
    version = routes.files.version(WEIGHT)
    if entry.knob != WEIGHT.name or isinstance(version, Gap):
        return False
    held = any(e.ref.id == entry.ref.id and e.knob == IDLE.name for e in ledger.entries)
    return held and routes.value(entry, text) == DEFAULT_WEIGHT[version]


def note_hidden(entry: LedgerEntry, ledger: Ledger, routes: Routes) -> None:
    """Of a weight that idle hides, ours or a stranger's: at its end the kernel's default stands
    there. A unit's property is not touched by that."""
    version = routes.files.version(WEIGHT)
    if isinstance(version, Gap) or entry.route != FILE_ROUTE:
        return
    expected = msgspec.structs.replace(entry, before=str(DEFAULT_WEIGHT[version]))
    if expected != entry:
        ledger.note(expected)


def _noted(entry: LedgerEntry, ledger: Ledger, routes: Routes) -> list[KnobValue]:
    """Every value in the notes on this knob, whichever their route."""
    alike = [e for e in ledger.entries if (e.ref.id, e.knob) == (entry.ref.id, entry.knob)]
    texts = [(e, text) for e in (entry, *alike) for text in (e.ours, e.before, e.baseline)]
    values = (routes.value(each, text) for each, text in texts)
    return [value for value in values if not isinstance(value, Gap)]


def _is_half_a_quota(reading: KnobValue | Gap, noted: list[KnobValue], routes: Routes) -> bool:
    if not isinstance(reading, Bandwidth) or routes.files.version(QUOTA) is not CgroupVersion.V1:
        return False
    known = [value for value in noted if isinstance(value, Bandwidth)]
    limits, periods = [each.limit for each in known], [each.period for each in known]
    return reading.limit in limits and reading.period in periods


def _is_a_union(reading: KnobValue | Gap, noted: list[KnobValue]) -> bool:
    known = [value for value in noted if isinstance(value, CpuSet)]
    return any(reading == one | other for one in known for other in known)
