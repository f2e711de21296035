"""What stands at one moment: every workload of a run read, joined, judged, gated and capped.

Owns the order of these steps and that nothing is asked twice: usage once for each namespace and
window, lag only where a rotation is proposed. Changes nothing: this is the whole of `plan`, and the
first half of `run`. One workload's trouble is its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assess import assess, gated
from slackwater.rebalancer.assessment import Assessment
from slackwater.rebalancer.budgets import budget_guard
from slackwater.rebalancer.caps import capped
from slackwater.rebalancer.fleet import LastRotation, WorkloadName
from slackwater.rebalancer.joining import fleet_of
from slackwater.rebalancer.lag import GUARD, lag_guard
from slackwater.rebalancer.outcome import judged
from slackwater.rebalancer.proposal import Guard
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.seen import Lag, NamespaceUsage, Problem, WorkloadSeen
from slackwater.settings.rotation import MoveSettings, Removal, RunSettings, WorkloadSettings

_Answer = TypeVar("_Answer")
#: Who failed, as `rebalancer_api_errors_total` counts it.
PROMETHEUS, KUBERNETES, KAFKA = "prometheus", "kubernetes", "kafka"
_COMPONENTS = {Reason.PROMETHEUS_ERROR: PROMETHEUS, Reason.KUBERNETES_ERROR: KUBERNETES}


class Reader(Protocol):
    """A ClusterReader: it lists each namespace once, so each round has a new one."""

    def read(self, settings: WorkloadSettings) -> WorkloadSeen | Problem: ...


class Sources(msgspec.Struct, frozen=True):
    """Where a round reads. `usage`: of a namespace, over a window, at an instant in seconds since
    1970. `halted` is why it is to stop, empty while it may go on."""

    reader: Callable[[], Reader]
    usage: Callable[[str, Micros, float], NamespaceUsage | Problem]
    lag: Callable[[WorkloadSettings], Lag | Gap]
    halted: Callable[[], str]


class Surveyed(msgspec.Struct, frozen=True):
    """One workload. `judged`: what its last rotation brought, where that was not known before."""

    settings: WorkloadSettings
    seen: WorkloadSeen | Problem
    assessment: Assessment
    judged: LastRotation | None = None


class Survey(msgspec.Struct, frozen=True):
    """`errors`: how many questions failed, by whom they were asked of. `remarks`: what the sources
    said beside their numbers, each with whose it is."""

    workloads: tuple[Surveyed, ...]
    errors: Mapping[str, int]
    remarks: tuple[tuple[str, str], ...] = ()

    def assessments(self) -> tuple[Assessment, ...]:
        return tuple(each.assessment for each in self.workloads)


def survey(sources: Sources, settings: RunSettings, now: float) -> Survey:
    """`now` is the time of day, in seconds since 1970."""
    ask = _Asking(sources, now)
    found = [_surveyed(ask, each, settings, now) for each in settings.workloads]
    bounded = _capped(found, settings)
    return Survey(tuple(bounded), dict(ask.errors), tuple(ask.remarks()))


def name_of(settings: WorkloadSettings) -> WorkloadName:
    """Of a workload that could not be read: of what kind it is, its HPA would have said."""
    return WorkloadName(settings.namespace, settings.kind or "workload", settings.name)


class _Asking:
    """Guards the answers of one round, and counts those that failed."""

    def __init__(self, sources: Sources, now: float) -> None:
        self.errors: Counter[str] = Counter()
        self._sources = sources
        self._now = now
        self._reader = sources.reader()
        self._usage: dict[tuple[str, Micros], NamespaceUsage | Problem] = {}

    def seen(self, settings: WorkloadSettings) -> WorkloadSeen | Problem:
        if halted := self._sources.halted():
            return Problem(Reason.STOPPED, halted)
        return self._counted(self._reader.read(settings))

    def usage(self, settings: WorkloadSettings) -> NamespaceUsage | Problem:
        if halted := self._sources.halted():
            return Problem(Reason.STOPPED, halted)
        key = settings.namespace, settings.moves.window
        if key not in self._usage:
            self._usage[key] = self._counted(self._sources.usage(*key, self._now))
        return self._usage[key]

    def lag_guard(self, settings: WorkloadSettings, kind: str) -> Guard:
        found = self._sources.lag(settings)
        if halted := self._sources.halted():
            return Guard(GUARD, False, halted, Reason.STOPPED)
        if isinstance(found, Gap):
            self.errors[KAFKA] += 1
        group = settings.kafka.group or settings.name
        return lag_guard(found, settings.kafka, group, kind)

    def remarks(self) -> Iterator[tuple[str, str]]:
        for (namespace, _), found in self._usage.items():
            for note in () if isinstance(found, Problem) else found.notes:
                yield f"usage in namespace {namespace}", note

    def _counted(self, found: _Answer | Problem) -> _Answer | Problem:
        if isinstance(found, Problem) and found.reason in _COMPONENTS:
            self.errors[_COMPONENTS[found.reason]] += 1
        return found


def _surveyed(ask: _Asking, settings: WorkloadSettings, run: RunSettings, now: float) -> Surveyed:
    seen = ask.seen(settings)
    if isinstance(seen, Problem):
        name = name_of(settings)
        assessment = assess(seen, seen, name, settings, run.request_source, now)
        return Surveyed(settings, seen, assessment)
    usage = ask.usage(settings)
    news = _judged(seen, usage, settings, run, now)
    if news is not None:
        # The pause follows from what came out, so that comes first.
        seen = msgspec.structs.replace(seen, last=news)
    assessment = assess(seen, usage, seen.workload, settings, run.request_source, now)
    if assessment.rotates and run.removal is Removal.EVICT:
        assessment = gated(assessment, budget_guard(seen.budgets, assessment.batches))
    if assessment.rotates and settings.kafka.enabled:
        assessment = gated(assessment, ask.lag_guard(settings, seen.workload.kind))
    return Surveyed(settings, seen, assessment, news)


def _judged(
    seen: WorkloadSeen,
    usage: NamespaceUsage | Problem,
    settings: WorkloadSettings,
    run: RunSettings,
    now: float,
) -> LastRotation | None:
    if isinstance(usage, Problem) or not isinstance(seen.last, LastRotation) or seen.last.judged:
        return None
    fleet = fleet_of(seen, usage, settings, run.request_source, now)
    return judged(seen.last, fleet, settings.moves, now)


def _capped(found: Sequence[Surveyed], settings: RunSettings) -> list[Surveyed]:
    moves = {each.assessment.workload: each.settings.moves for each in found}

    def settings_of(name: WorkloadName) -> MoveSettings:
        return moves[name]

    bounded = capped([each.assessment for each in found], settings.caps, settings_of)
    return [
        msgspec.structs.replace(each, assessment=assessment)
        for each, assessment in zip(found, bounded, strict=True)
    ]
