"""One workload in one run: what was seen, what was proposed, what the guards said, what follows.

Owns this value: `plan` prints it, `run` acts on it, metrics and events are read off it.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.guards import (
    LAG_GUARD,
    budget_guard,
    check_guards,
    count_guards,
    lag_guard,
    opted_out,
)
from slackwater.rebalancer.last_rotation import judge_rotation
from slackwater.rebalancer.merge_usage import merge_usage
from slackwater.rebalancer.observed import (
    Lag,
    LastRotation,
    NamespaceUsage,
    ObservedWorkload,
    Unavailable,
    WorkloadName,
    WorkloadUsage,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import (
    Candidate,
    GuardResult,
    PodGroup,
    Proposal,
    judge_gain,
    predict_gain,
    propose,
    remark_still_hot,
    split_into_batches,
    with_gain,
)
from slackwater.settings.rebalancer import (
    CapSettings,
    MoveSettings,
    Removal,
    RequestSource,
    RunSettings,
    WorkloadSettings,
)


class Assessment(msgspec.Struct, frozen=True):
    """`reason` is None where it is to be rotated, else why not; `because` is the sentence in either
    case. `fleet` and `proposal` are None where it could not come so far. `batches`: who goes
    together, in order; empty where nobody goes."""

    workload: WorkloadName
    reason: Reason | None
    because: str
    measured: WorkloadUsage | None = None
    proposal: Proposal | None = None
    guards: tuple[GuardResult, ...] = ()
    batches: tuple[tuple[Candidate, ...], ...] = ()

    @property
    def rotates(self) -> bool:
        return self.reason is None


def assess(
    observed: ObservedWorkload | Unavailable,
    usage: NamespaceUsage | Unavailable,
    name: WorkloadName,
    settings: WorkloadSettings,
    requests: RequestSource,
    now: float,
) -> Assessment:
    """`name` is used where the workload itself could not be read; `now` in seconds since 1970."""
    if isinstance(observed, Unavailable):
        return Assessment(name, observed.reason, observed.because)
    unwanted = opted_out(observed)
    if isinstance(usage, Unavailable):
        # Who wants no rotation need not hear what it would take.
        if unwanted.passed:
            return Assessment(observed.workload, usage.reason, usage.because)
        return with_guard(Assessment(observed.workload, None, ""), unwanted)
    measured = merge_usage(observed, usage, settings, requests, now)
    proposal = _proposed(observed, measured, settings.moves)
    decided = (proposal.reason, proposal.because) if unwanted.passed else (None, "")
    found = Assessment(observed.workload, *decided, measured, proposal)
    for guard in check_guards(proposal, measured, observed, settings.moves, now):
        found = with_guard(found, guard)
    if not found.rotates:
        return found
    return msgspec.structs.replace(
        found, batches=split_into_batches(proposal, measured, settings.moves)
    )


def _proposed(
    observed: ObservedWorkload, measured: WorkloadUsage, settings: MoveSettings
) -> Proposal:
    """A fleet knows only that there is no target; the reader knew whether none or several."""
    proposal = propose(measured, settings)
    if isinstance(observed.hpa_target, Unavailable):
        return msgspec.structs.replace(
            proposal, reason=observed.hpa_target.reason, because=observed.hpa_target.because
        )
    return proposal


def with_guard(assessment: Assessment, guard: GuardResult) -> Assessment:
    """With the finding of one more guard. Only the first that forbids gives the reason."""
    guards = (*assessment.guards, guard)
    if guard.passed or not assessment.rotates:
        return msgspec.structs.replace(assessment, guards=guards)
    if guard.reason is None:
        raise ValueError(f"the guard {guard.guard} forbids without a reason")
    return msgspec.structs.replace(
        assessment, guards=guards, reason=guard.reason, because=guard.because, batches=()
    )


_CAPS = "caps"
_RUN, _NODE, _NAMESPACE = "run", "node", "namespace"
#: How many go already, by (kind of cap, node or namespace).
_Used = Counter[tuple[str, str]]


def apply_caps(
    assessments: Sequence[Assessment],
    caps: CapSettings,
    settings_of: Callable[[WorkloadName], MoveSettings],
) -> tuple[Assessment, ...]:
    """The same workloads in the same order. Who is not rotated uses nothing up."""
    if not (caps.run or caps.node or caps.namespace):
        return tuple(assessments)
    used: _Used = Counter()
    found: list[Assessment] = []
    for each in assessments:
        if each.proposal is not None and each.measured is not None and each.rotates:
            settings = settings_of(each.workload)
            each = _cut(each, each.proposal, each.measured, used, caps, settings)
        if each.proposal is not None and each.rotates:
            used += _needed(each.workload, each.proposal.rotate)
        found.append(each)
    return tuple(found)


def _cut(
    assessment: Assessment,
    proposal: Proposal,
    measured: WorkloadUsage,
    used: _Used,
    caps: CapSettings,
    settings: MoveSettings,
) -> Assessment:
    kept = _kept(assessment.workload, proposal.rotate, used, caps)
    wanted, limits = len(proposal.rotate), _limits(caps)
    if len(kept) == wanted:
        return with_guard(assessment, GuardResult(_CAPS, True, f"all {wanted} may go: {limits}"))
    smaller = _smaller(proposal, kept, settings)
    text = f"{len(kept)} of {wanted} pods may go: {limits}"
    if smaller.reason is not None:
        text += f"; {smaller.because}" if kept else _alone(assessment, proposal, used, caps)
        return with_guard(assessment, GuardResult(_CAPS, False, text, Reason.CAPPED))
    again = count_guards(smaller, measured, settings)
    names = {each.guard for each in again}
    guards = (*(each for each in assessment.guards if each.guard not in names), *again)
    return msgspec.structs.replace(
        assessment,
        because=smaller.because,
        proposal=smaller,
        guards=(*guards, GuardResult(_CAPS, True, text)),
        batches=split_into_batches(smaller, measured, settings),
    )


def _kept(
    workload: WorkloadName, rotate: tuple[Candidate, ...], used: _Used, caps: CapSettings
) -> tuple[Candidate, ...]:
    """Whole pairs while they fit, then those that never had a partner. In the proposal's order."""
    hot = [each for each in rotate if each.group is PodGroup.TOP]
    cold = [each for each in rotate if each.group is not PodGroup.TOP]
    used, kept = Counter(used), set[str]()
    whole = min(len(hot), len(cold))
    while hot and cold:
        pairs = itertools.product(hot, cold)
        fitting = (pair for pair in pairs if _fits(workload, pair, used, caps))
        pair = next(fitting, None)
        if pair is None:
            break
        used += _needed(workload, pair)
        kept |= {each.name for each in pair}
        hot.remove(pair[0])
        cold.remove(pair[1])
    if len(kept) == 2 * whole:
        for each in (*hot, *cold):
            if _fits(workload, (each,), used, caps):
                used += _needed(workload, (each,))
                kept.add(each.name)
    return tuple(each for each in rotate if each.name in kept)


def _alone(assessment: Assessment, proposal: Proposal, used: _Used, caps: CapSettings) -> str:
    """A remark where a cap has room for one, and yet nobody goes."""
    if not any(_fits(assessment.workload, (each,), used, caps) for each in proposal.rotate):
        return ""
    return "; a hot and a cold pod go together, so one alone is not rotated"


def _smaller(proposal: Proposal, kept: tuple[Candidate, ...], settings: MoveSettings) -> Proposal:
    """What is left, with what it would bring; a reason where that is no longer enough."""
    hot = [each for each in kept if each.group is PodGroup.TOP]
    cold = [each for each in kept if each.group is not PodGroup.TOP]
    if not hot or proposal.numbers is None:
        return msgspec.structs.replace(proposal, rotate=(), reason=Reason.CAPPED)
    gain = predict_gain(hot, cold)
    reason, because = judge_gain(gain, settings)
    because += "" if reason else remark_still_hot(gain, proposal.numbers)
    left_out = {each.name: PodGroup.REST for each in proposal.rotate if each not in kept}
    numbers = with_gain(proposal.numbers, gain)
    return Proposal(kept, reason, because, proposal.groups | left_out, numbers)


def _fits(
    workload: WorkloadName, going: tuple[Candidate, ...], used: _Used, caps: CapSettings
) -> bool:
    most = {_RUN: caps.run, _NODE: caps.node, _NAMESPACE: caps.namespace}
    needed = _needed(workload, going)
    return all(used[key] + needed[key] <= most[key[0]] for key in needed if most[key[0]])


def _needed(workload: WorkloadName, going: tuple[Candidate, ...]) -> _Used:
    needed: _Used = Counter()
    for each in going:
        needed.update(((_RUN, ""), (_NODE, each.node), (_NAMESPACE, workload.namespace)))
    return needed


def _limits(caps: CapSettings) -> str:
    each = ((caps.run, "in a run"), (caps.node, "from a node"), (caps.namespace, "of a namespace"))
    return "at most " + ", ".join(f"{most} {where}" for most, where in each if most)


_Answer = TypeVar("_Answer")
#: Who failed, as `rebalancer_api_errors_total` counts it.
PROMETHEUS, KUBERNETES, KAFKA = "prometheus", "kubernetes", "kafka"
_COMPONENTS = {Reason.PROMETHEUS_ERROR: PROMETHEUS, Reason.KUBERNETES_ERROR: KUBERNETES}


class Reader(Protocol):
    """A ClusterReader: it lists each namespace once, so each round has a new one."""

    def read(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable: ...


class Sources(msgspec.Struct, frozen=True):
    """Where a round reads. `usage`: of a namespace, over a window, at an instant in seconds since
    1970. `halted` is why it is to stop, empty while it may go on."""

    reader: Callable[[], Reader]
    usage: Callable[[str, Micros, float], NamespaceUsage | Unavailable]
    lag: Callable[[WorkloadSettings], Lag | Gap]
    halted: Callable[[], str]


class AssessedWorkload(msgspec.Struct, frozen=True):
    """One workload. `judged`: what its last rotation brought, where that was not known before."""

    settings: WorkloadSettings
    observed: ObservedWorkload | Unavailable
    assessment: Assessment
    judged: LastRotation | None = None


class RoundAssessment(msgspec.Struct, frozen=True):
    """`errors`: how many questions failed, by whom they were asked of. `remarks`: what the sources
    said beside their numbers, each with whose it is."""

    workloads: tuple[AssessedWorkload, ...]
    errors: Mapping[str, int]
    remarks: tuple[tuple[str, str], ...] = ()

    def assessments(self) -> tuple[Assessment, ...]:
        return tuple(each.assessment for each in self.workloads)


def assess_all(sources: Sources, settings: RunSettings, now: float) -> RoundAssessment:
    """`now` is the time of day, in seconds since 1970."""
    ask = _RoundReader(sources, now)
    found = [_assess_workload(ask, each, settings, now) for each in settings.workloads]
    bounded = _cap_round(found, settings)
    return RoundAssessment(tuple(bounded), dict(ask.errors), tuple(ask.remarks()))


def configured_name(settings: WorkloadSettings) -> WorkloadName:
    """Of a workload that could not be read: of what kind it is, its HPA would have said."""
    return WorkloadName(settings.namespace, settings.kind or "workload", settings.name)


class _RoundReader:
    """Guards the answers of one round, and counts those that failed."""

    def __init__(self, sources: Sources, now: float) -> None:
        self.errors: Counter[str] = Counter()
        self._sources = sources
        self._now = now
        self._reader = sources.reader()
        self._usage: dict[tuple[str, Micros], NamespaceUsage | Unavailable] = {}

    def observed(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        if halted := self._sources.halted():
            return Unavailable(Reason.STOPPED, halted)
        return self._counted(self._reader.read(settings))

    def usage(self, settings: WorkloadSettings) -> NamespaceUsage | Unavailable:
        if halted := self._sources.halted():
            return Unavailable(Reason.STOPPED, halted)
        key = settings.namespace, settings.moves.window
        if key not in self._usage:
            self._usage[key] = self._counted(self._sources.usage(*key, self._now))
        return self._usage[key]

    def lag_guard(self, settings: WorkloadSettings, kind: str) -> GuardResult:
        found = self._sources.lag(settings)
        if halted := self._sources.halted():
            return GuardResult(LAG_GUARD, False, halted, Reason.STOPPED)
        if isinstance(found, Gap):
            self.errors[KAFKA] += 1
        group = settings.kafka.group or settings.name
        return lag_guard(found, settings.kafka, group, kind)

    def remarks(self) -> Iterator[tuple[str, str]]:
        for (namespace, _), found in self._usage.items():
            for note in () if isinstance(found, Unavailable) else found.notes:
                yield f"usage in namespace {namespace}", note

    def _counted(self, found: _Answer | Unavailable) -> _Answer | Unavailable:
        if isinstance(found, Unavailable) and found.reason in _COMPONENTS:
            self.errors[_COMPONENTS[found.reason]] += 1
        return found


def _assess_workload(
    ask: _RoundReader, settings: WorkloadSettings, run: RunSettings, now: float
) -> AssessedWorkload:
    observed = ask.observed(settings)
    if isinstance(observed, Unavailable):
        name = configured_name(settings)
        assessment = assess(observed, observed, name, settings, run.request_source, now)
        return AssessedWorkload(settings, observed, assessment)
    usage = ask.usage(settings)
    news = _judge_last_rotation(observed, usage, settings, run, now)
    if news is not None:
        # The pause follows from what came out, so that comes first.
        observed = msgspec.structs.replace(observed, last=news)
    assessment = assess(observed, usage, observed.workload, settings, run.request_source, now)
    if assessment.rotates and run.removal is Removal.EVICT:
        assessment = with_guard(assessment, budget_guard(observed.budgets, assessment.batches))
    if assessment.rotates and settings.kafka.enabled:
        assessment = with_guard(assessment, ask.lag_guard(settings, observed.workload.kind))
    return AssessedWorkload(settings, observed, assessment, news)


def _judge_last_rotation(
    observed: ObservedWorkload,
    usage: NamespaceUsage | Unavailable,
    settings: WorkloadSettings,
    run: RunSettings,
    now: float,
) -> LastRotation | None:
    if (
        isinstance(usage, Unavailable)
        or not isinstance(observed.last, LastRotation)
        or observed.last.judged
    ):
        return None
    measured = merge_usage(observed, usage, settings, run.request_source, now)
    return judge_rotation(observed.last, measured, settings.moves, now)


def _cap_round(found: Sequence[AssessedWorkload], settings: RunSettings) -> list[AssessedWorkload]:
    moves = {each.assessment.workload: each.settings.moves for each in found}

    def settings_of(name: WorkloadName) -> MoveSettings:
        return moves[name]

    bounded = apply_caps([each.assessment for each in found], settings.caps, settings_of)
    return [
        msgspec.structs.replace(each, assessment=assessment)
        for each, assessment in zip(found, bounded, strict=True)
    ]
