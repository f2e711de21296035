"""Assesses workloads: whether each is to be rotated, which pods go together, or why not.

`assess` judges one workload from what was read of it; `assess_all` reads and judges all workloads
of a round and applies the caps that count over all of them. Nothing is changed: this is all of
`plan` and the first half of `run`. Pure but for the sources it is given.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.guards import (
    LAG_GUARD,
    GuardResult,
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
    PodUsage,
    Unavailable,
    WorkloadName,
    WorkloadUsage,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import (
    PodGroup,
    Proposal,
    judge_gain,
    predict_gain,
    propose,
    remark_still_hot,
    split_into_batches,
)
from slackwater.settings.rebalancer import (
    CapSettings,
    MoveSettings,
    Removal,
    RequestSource,
    RunSettings,
    WorkloadSettings,
)

_Answer = TypeVar("_Answer")
#: Whose request failed, as `rebalancer_api_errors_total` counts it.
PROMETHEUS, KUBERNETES, KAFKA = "prometheus", "kubernetes", "kafka"
_COMPONENTS = {Reason.PROMETHEUS_ERROR: PROMETHEUS, Reason.KUBERNETES_ERROR: KUBERNETES}
_CAPS_GUARD = "caps"
_RUN, _NODE, _NAMESPACE = "run", "node", "namespace"
#: How many pods go already, by kind of cap and node or namespace.
_Used = Counter[tuple[str, str]]


class Assessment(msgspec.Struct, frozen=True):
    """`reason` is None if the workload is to be rotated, else why not; `because` is a sentence in
    either case. `measured` and `proposal` are None if the workload could not be read. `judged`: the
    last rotation with what it brought, if that became known now. `batches`: which pods go together,
    in order; empty if none goes."""

    workload: WorkloadName
    reason: Reason | None
    because: str
    measured: WorkloadUsage | None = None
    proposal: Proposal | None = None
    judged: LastRotation | None = None
    guards: tuple[GuardResult, ...] = ()
    batches: tuple[tuple[PodUsage, ...], ...] = ()

    @property
    def rotates(self) -> bool:
        return self.reason is None

    def group_of(self, pod: PodUsage) -> PodGroup:
        groups = self.proposal.groups if self.proposal else {}
        return groups.get(pod.name, PodGroup.REST)


def assess(
    observed: ObservedWorkload,
    usage: NamespaceUsage | Unavailable,
    settings: WorkloadSettings,
    requests: RequestSource,
    now: float,
) -> Assessment:
    """The order of reasons: an opt-out, usage that could not be read, what the selection finds, the
    other guards. `now` in seconds since 1970."""
    found = with_guard(Assessment(observed.workload, None, ""), opted_out(observed))
    if isinstance(usage, Unavailable):
        if found.rotates:
            return Assessment(observed.workload, usage.reason, usage.because)
        return found
    measured = merge_usage(observed, usage, settings, requests, now)
    proposal = _propose(observed, measured, settings.moves)
    if found.rotates:
        found = replace(found, reason=proposal.reason, because=proposal.because)
    judged = None
    if isinstance(observed.last, LastRotation):
        judged = judge_rotation(observed.last, measured, settings.moves, now)
    if judged is not None:
        # The pause depends on what the last rotation brought.
        observed = replace(observed, last=judged)
    found = replace(found, measured=measured, proposal=proposal, judged=judged)
    for guard in check_guards(proposal, measured, observed, settings.moves, now):
        found = with_guard(found, guard)
    if not found.rotates:
        return found
    return replace(found, batches=split_into_batches(proposal, measured, settings.moves))


def _propose(
    observed: ObservedWorkload, measured: WorkloadUsage, settings: MoveSettings
) -> Proposal:
    """Without a target, whether there is none or several is known only from what was read."""
    proposal = propose(measured, settings)
    target = observed.hpa_target
    if isinstance(target, Unavailable):
        return replace(proposal, reason=target.reason, because=target.because)
    return proposal


def with_guard(assessment: Assessment, guard: GuardResult) -> Assessment:
    """Adds a guard's result. Only the first guard that forbids gives the reason."""
    guards = (*assessment.guards, guard)
    if guard.passed or not assessment.rotates:
        return replace(assessment, guards=guards)
    if guard.reason is None:
        raise ValueError(f"the guard {guard.guard} forbids without a reason")
    return replace(
        assessment, guards=guards, reason=guard.reason, because=guard.because, batches=()
    )


class Sources(Protocol):
    """What a round reads."""

    def observe(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        """From lists that are read once in a round."""

    def observe_again(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        """As it is now."""

    def usage(self, namespace: str, window: Micros, at: float) -> NamespaceUsage | Unavailable: ...

    def lag(self, settings: WorkloadSettings) -> Lag | Gap: ...

    def halted(self) -> str:
        """Why the round is to stop; empty while it may go on."""


class AssessedWorkload(msgspec.Struct, frozen=True):
    """`observed` has the last rotation as it was judged now."""

    settings: WorkloadSettings
    observed: ObservedWorkload | Unavailable
    assessment: Assessment


class RoundAssessment(msgspec.Struct, frozen=True):
    """`errors`: how many requests failed, by component. `remarks`: what the sources said besides
    their numbers, each with what it is about."""

    workloads: tuple[AssessedWorkload, ...]
    errors: Mapping[str, int]
    remarks: tuple[tuple[str, str], ...] = ()

    def assessments(self) -> tuple[Assessment, ...]:
        return tuple(each.assessment for each in self.workloads)


def assess_all(sources: Sources, settings: RunSettings, now: float) -> RoundAssessment:
    """`now` is the time of day, in seconds since 1970. A workload that cannot be read or judged
    does not affect the others."""
    reader = _RoundReader(sources, now)
    found = [_read_and_assess(reader, each, settings, now) for each in settings.workloads]
    capped = _cap_round(found, settings)
    return RoundAssessment(tuple(capped), dict(reader.errors), tuple(reader.remarks()))


def configured_name(settings: WorkloadSettings) -> WorkloadName:
    """Of a workload that could not be read; its kind is known only if it is configured."""
    return WorkloadName(settings.namespace, settings.kind or "workload", settings.name)


class _RoundReader:
    """Reads usage once for each namespace and window of a round, and counts failed requests."""

    def __init__(self, sources: Sources, now: float) -> None:
        self.errors: Counter[str] = Counter()
        self._sources = sources
        self._now = now
        self._usage: dict[tuple[str, Micros], NamespaceUsage | Unavailable] = {}

    def observe(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        if halted := self._sources.halted():
            return Unavailable(Reason.STOPPED, halted)
        return self._counted(self._sources.observe(settings))

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


def _read_and_assess(
    reader: _RoundReader, settings: WorkloadSettings, run: RunSettings, now: float
) -> AssessedWorkload:
    observed = reader.observe(settings)
    if isinstance(observed, Unavailable):
        name = configured_name(settings)
        assessment = Assessment(name, observed.reason, observed.because)
        return AssessedWorkload(settings, observed, assessment)
    assessment = assess(observed, reader.usage(settings), settings, run.request_source, now)
    if assessment.judged is not None:
        observed = replace(observed, last=assessment.judged)
    if assessment.rotates and run.removal is Removal.EVICT:
        assessment = with_guard(assessment, budget_guard(observed.budgets, assessment.batches))
    if assessment.rotates and settings.kafka.enabled:
        assessment = with_guard(assessment, reader.lag_guard(settings, observed.workload.kind))
    return AssessedWorkload(settings, observed, assessment)


def _cap_round(found: Sequence[AssessedWorkload], settings: RunSettings) -> list[AssessedWorkload]:
    moves = {each.assessment.workload: each.settings.moves for each in found}
    capped = apply_caps([each.assessment for each in found], settings.caps, moves.__getitem__)
    return [
        replace(each, assessment=assessment) for each, assessment in zip(found, capped, strict=True)
    ]


def apply_caps(
    assessments: Sequence[Assessment],
    caps: CapSettings,
    settings_of: Callable[[WorkloadName], MoveSettings],
) -> tuple[Assessment, ...]:
    """Limits how many pods go in one run, from one node and from one namespace. The workloads come
    in order of precedence; those that are not rotated use nothing up."""
    if not (caps.run or caps.node or caps.namespace):
        return tuple(assessments)
    used: _Used = Counter()
    found: list[Assessment] = []
    for each in assessments:
        if each.proposal is not None and each.measured is not None and each.rotates:
            settings = settings_of(each.workload)
            each = _cap(each, each.proposal, each.measured, used, caps, settings)
        if each.proposal is not None and each.rotates:
            used += _needed(each.workload, each.proposal.rotate)
        found.append(each)
    return tuple(found)


def _cap(
    assessment: Assessment,
    proposal: Proposal,
    measured: WorkloadUsage,
    used: _Used,
    caps: CapSettings,
    settings: MoveSettings,
) -> Assessment:
    kept = _kept(assessment.workload, proposal, used, caps)
    wanted, limits = len(proposal.rotate), _limits(caps)
    if len(kept) == wanted:
        text = f"all {wanted} may go: {limits}"
        return with_guard(assessment, GuardResult(_CAPS_GUARD, True, text))
    smaller = _reduce(proposal, kept, settings)
    text = f"{len(kept)} of {wanted} pods may go: {limits}"
    if smaller.reason is not None:
        text += f"; {smaller.because}" if kept else _pair_remark(assessment, proposal, used, caps)
        return with_guard(assessment, GuardResult(_CAPS_GUARD, False, text, Reason.CAPPED))
    again = count_guards(smaller, measured, settings)
    names = {each.guard for each in again}
    guards = (*(each for each in assessment.guards if each.guard not in names), *again)
    return replace(
        assessment,
        because=smaller.because,
        proposal=smaller,
        guards=(*guards, GuardResult(_CAPS_GUARD, True, text)),
        batches=split_into_batches(smaller, measured, settings),
    )


def _kept(
    workload: WorkloadName, proposal: Proposal, used: _Used, caps: CapSettings
) -> tuple[PodUsage, ...]:
    """Whole pairs as long as they fit, then those that never had a partner. In the proposal's
    order."""
    hot, cold = list(proposal.hot), list(proposal.cold)
    used, kept = Counter(used), set[str]()
    whole = min(len(hot), len(cold))
    while hot and cold:
        pairs = itertools.product(hot, cold)
        pair = next((pair for pair in pairs if _fits(workload, pair, used, caps)), None)
        if pair is None:
            break
        used += _needed(workload, pair)
        kept |= {pod.name for pod in pair}
        hot.remove(pair[0])
        cold.remove(pair[1])
    if len(kept) == 2 * whole:
        for pod in (*hot, *cold):
            if _fits(workload, (pod,), used, caps):
                used += _needed(workload, (pod,))
                kept.add(pod.name)
    return tuple(pod for pod in proposal.rotate if pod.name in kept)


def _pair_remark(assessment: Assessment, proposal: Proposal, used: _Used, caps: CapSettings) -> str:
    """If a cap has room for one pod, and yet none goes."""
    if not any(_fits(assessment.workload, (pod,), used, caps) for pod in proposal.rotate):
        return ""
    return "; a hot and a cold pod go together, so one alone is not rotated"


def _reduce(proposal: Proposal, kept: tuple[PodUsage, ...], settings: MoveSettings) -> Proposal:
    """The proposal for fewer pods; it has a reason if that is not worth it any more."""
    hot = [pod for pod in kept if proposal.groups[pod.name] is PodGroup.TOP]
    if not hot or proposal.numbers is None:
        return replace(proposal, rotate=(), reason=Reason.CAPPED)
    gain = predict_gain(hot, kept[len(hot) :])
    reason, because = judge_gain(gain, settings)
    because += "" if reason else remark_still_hot(gain, proposal.numbers)
    names = {pod.name for pod in kept}
    left_out = {pod.name: PodGroup.REST for pod in proposal.rotate if pod.name not in names}
    numbers = replace(proposal.numbers, gain=gain)
    return Proposal(kept, reason, because, proposal.groups | left_out, numbers)


def _fits(
    workload: WorkloadName, going: tuple[PodUsage, ...], used: _Used, caps: CapSettings
) -> bool:
    most = {_RUN: caps.run, _NODE: caps.node, _NAMESPACE: caps.namespace}
    needed = _needed(workload, going)
    return all(used[key] + needed[key] <= most[key[0]] for key in needed if most[key[0]])


def _needed(workload: WorkloadName, going: tuple[PodUsage, ...]) -> _Used:
    needed: _Used = Counter()
    for pod in going:
        needed.update(((_RUN, ""), (_NODE, pod.node), (_NAMESPACE, workload.namespace)))
    return needed


def _limits(caps: CapSettings) -> str:
    each = ((caps.run, "in a run"), (caps.node, "from a node"), (caps.namespace, "of a namespace"))
    return "at most " + ", ".join(f"{most} {where}" for most, where in each if most)
