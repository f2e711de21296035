"""What if this workload had been rotated: a day lived through twice, without and with.

Owns the virtual time between decisions. Each decision is the rebalancer's own (`assess`, with
joining, moves, guards and batches), each rotation's outcome is judged by its own `judged`; what a
rotation does to the load is `whatif_dealing`'s to say. Pure: the same day is the same answer.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Assessment, assess
from slackwater.rebalancer.last_rotation import record_rotation
from slackwater.rebalancer.merge_usage import WHOLE, merge_usage
from slackwater.rebalancer.observed import (
    ContainerAmounts,
    Cores,
    HpaTarget,
    LastRotation,
    NamespaceUsage,
    ObservedWorkload,
    PercentOf,
    PodUsage,
    Scaling,
    Seconds,
    WorkloadName,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.selection import Numbers, is_above, propose
from slackwater.rebalancer.whatif.day import Day, Moment
from slackwater.settings.rebalancer import MoveSettings, RequestSource, WorkloadSettings

_HOUR = 3600.0
#: A quotient that is whole but for rounding needs no further replica.
_SLACK = 1e-9


class Savings(msgspec.Struct, frozen=True, rename="camel"):
    """By an HPA that scales on the flatter fleet: replicas x time, the same in requested CPU, and
    as a part of what it would need without rotation."""

    replica_hours: float
    core_hours: float
    percent: PercentOf


def needed_replicas(usages: Sequence[float], target: Cores, threshold: Cores) -> int:
    """max(total / target, total x (hottest / mean) / threshold), rounded up; at least one.
    total x hottest / mean is hottest x pods. All in cores."""
    total, hottest = math.fsum(usages), max(usages)
    needed = max(total / target, hottest * len(usages) / threshold)
    return max(math.ceil(needed * (1 - _SLACK)), 1)


def compare_replicas(
    without: Sequence[int], rotated: Sequence[int], requests: Sequence[Cores], step: Seconds
) -> Savings:
    """Step by step: replicas needed without and with rotation, and one pod's request."""
    fewer = [one - other for one, other in zip(without, rotated, strict=True)]
    cores = math.fsum(f * request for f, request in zip(fewer, requests, strict=True))
    all_cores = math.fsum(n * request for n, request in zip(without, requests, strict=True))
    hours = step / _HOUR
    percent = PercentOf(round(100 * cores / all_cores if all_cores else 0.0, 2))
    return Savings(round(sum(fewer) * hours, 2), round(cores * hours, 2), percent)


#: By carrier, then by recorded pod. Who is not in it carries itself.
LoadShares = Mapping[str, Mapping[str, float]]


def carried_load(parts: LoadShares, loads: Mapping[str, float]) -> dict[str, float]:
    """What each pod carries, in the unit of `loads` (cores), which are the recorded ones."""
    return {
        pod: math.fsum(part * loads[other] for other, part in parts[pod].items())
        if pod in parts
        else load
        for pod, load in loads.items()
    }


def redistribute(parts: LoadShares, group: Collection[str], stickiness: float) -> LoadShares:
    """After the group was rotated: each successor carries an equal part of what all carried, but
    for `stickiness` (0 to 1) of its predecessor's own."""
    rows = {pod: parts.get(pod, {pod: 1.0}) for pod in group}
    even: dict[str, float] = {}
    for row in rows.values():
        for other, part in row.items():
            even[other] = even.get(other, 0.0) + part / len(rows)
    anew = {
        pod: {
            other: stickiness * row.get(other, 0.0) + (1 - stickiness) * part
            for other, part in even.items()
        }
        for pod, row in rows.items()
    }
    return {**parts, **anew}


def remove_pod(parts: LoadShares, gone: str) -> LoadShares:
    """After a pod left the recording. What it would have carried goes to those who carry parts of
    it, so that all sums stay 1: a Markov chain watched only while it is elsewhere."""
    if gone not in parts:
        return parts
    passed_on = {other: part for other, part in parts[gone].items() if other != gone and part}
    whole = math.fsum(passed_on.values())
    rest: dict[str, Mapping[str, float]] = {}
    for pod, row in parts.items():
        if pod == gone:
            continue
        through = row.get(gone, 0.0)
        kept = {other: part for other, part in row.items() if other != gone}
        for other, part in passed_on.items() if through else ():
            kept[other] = kept.get(other, 0.0) + through * part / whole
        rest[pod] = kept
    return rest


_NAME = WorkloadName("simulated", "Deployment", "simulated")
_BOX = "main"
_NO_LIMIT = Gap("a recording has no limits")
_MICROS = 1_000_000


class SimulationTerms(msgspec.Struct, frozen=True):
    """`stickiness`: the part of a pod's load that goes to its own successor, 0 to 1."""

    hpa_target: HpaTarget
    moves: MoveSettings = MoveSettings()
    stickiness: float = 0.0


class LoadSummary(msgspec.Struct, frozen=True):
    """The fleet in one step: `above` counts pods above the threshold, `replicas` is what an HPA
    would need for it."""

    hottest: Cores
    mean: Cores
    above: int
    replicas: int


class SimulatedStep(msgspec.Struct, frozen=True):
    """`reason` is ROTATED, or why not. `request` is the mean of the pods'."""

    at: float
    pods: int
    target: Cores
    threshold: Cores
    request: Cores
    without: LoadSummary
    rotated: LoadSummary
    reason: Reason


class SimulatedRotation(msgspec.Struct, frozen=True, rename="camel"):
    """`improvement`: predicted, in percent of `average`, which is the hot pods'. `realised`: found
    once the window had passed; None where the day was over, or it could not be said."""

    at: float
    pods: tuple[str, ...]
    average: Cores
    predicted: Cores
    improvement: PercentOf
    realised: PercentOf | None = None


class SimulationResult(msgspec.Struct, frozen=True):
    """The whole day."""

    steps: tuple[SimulatedStep, ...]
    rotations: tuple[SimulatedRotation, ...]


class _SimulationState(msgspec.Struct, frozen=True):
    """Between two steps. `started`: of each pod that is there."""

    parts: LoadShares = {}
    started: Mapping[str, float] = {}
    last: LastRotation | None = None
    rotations: tuple[SimulatedRotation, ...] = ()


def simulate_day(
    day: Day, terms: SimulationTerms, passed: Callable[[], object] = lambda: None
) -> SimulationResult:
    """`passed` is called after each step, for whoever waits."""
    steps: list[SimulatedStep] = []
    state = _SimulationState(started=_initial_start_times(day, terms))
    for moment in day.moments:
        step, state = _simulate_step(moment, _update_pods(state, moment), terms)
        steps.append(step)
        passed()
    return SimulationResult(tuple(steps), state.rotations)


def _simulate_step(
    moment: Moment, state: _SimulationState, terms: SimulationTerms
) -> tuple[SimulatedStep, _SimulationState]:
    recorded: dict[str, float] = {pod: load.cores for pod, load in moment.loads.items()}
    usages = carried_load(state.parts, recorded)
    assessment = _assess(moment, usages, state, terms)
    step = _step(moment, recorded, usages, assessment.reason or Reason.ROTATED, terms)
    state = _note_judged(state, assessment.judged)
    if assessment.rotates:
        state = _apply_rotation(state, assessment, terms, moment.at)
    return step, state


def _initial_start_times(day: Day, terms: SimulationTerms) -> dict[str, float]:
    """Who is there at the beginning has been there: nobody knows for how long."""
    first = day.moments[0] if day.moments else Moment(0.0, {})
    started = first.at - terms.moves.youngest / _MICROS - day.step
    return dict.fromkeys(first.loads, started)


def _update_pods(state: _SimulationState, moment: Moment) -> _SimulationState:
    """Who left took its parts; who came is as old as this step."""
    parts = state.parts
    for gone in sorted(state.started.keys() - moment.loads.keys()):
        parts = remove_pod(parts, gone)
    started = {pod: state.started.get(pod, moment.at) for pod in moment.loads}
    return replace(state, parts=parts, started=started)


def _observe(moment: Moment, state: _SimulationState, hpa_target: HpaTarget) -> ObservedWorkload:
    pods = tuple(
        PodUsage(
            name=pod,
            uid=f"{pod}@{state.started[pod]:g}",
            node="",
            started=state.started[pod],
            containers=(ContainerAmounts(_BOX, load.request, _NO_LIMIT),),
        )
        for pod, load in moment.loads.items()
    )
    scaling = Scaling(len(pods), len(pods))
    return ObservedWorkload(_NAME, "apps/v1", "", "", pods, hpa_target, scaling, last=state.last)


def _usage(usages: Mapping[str, float]) -> NamespaceUsage:
    return NamespaceUsage({(pod, _BOX): Cores(used) for pod, used in usages.items()}, {})


def _settings(moves: MoveSettings) -> WorkloadSettings:
    return WorkloadSettings(_NAME.namespace, _NAME.name, container=WHOLE, moves=moves)


def _assess(
    moment: Moment, usages: Mapping[str, float], state: _SimulationState, terms: SimulationTerms
) -> Assessment:
    observed = _observe(moment, state, terms.hpa_target)
    settings = _settings(terms.moves)
    return assess(observed, _usage(usages), settings, RequestSource.SPEC, moment.at)


def _step(
    moment: Moment,
    recorded: Mapping[str, float],
    usages: Mapping[str, float],
    reason: Reason,
    terms: SimulationTerms,
) -> SimulatedStep:
    """Measured on all pods, however young: the same threshold counts for both sides."""
    state = _SimulationState(started=dict.fromkeys(moment.loads, moment.at))
    moves = replace(terms.moves, minimum_pod_age=Micros(0))
    observed, usage = _observe(moment, state, terms.hpa_target), _usage(recorded)
    measured = merge_usage(observed, usage, _settings(moves), RequestSource.SPEC, moment.at)
    numbers = propose(measured, moves).numbers
    if numbers is None:
        raise ValueError("a day's pods have usage and request, so there is a threshold")
    request = math.fsum(load.request for load in moment.loads.values()) / len(moment.loads)
    return SimulatedStep(
        moment.at, len(moment.loads), numbers.target, numbers.threshold, Cores(request),
        _summarize(recorded, numbers), _summarize(usages, numbers), reason,
    )  # fmt: skip


def _summarize(usages: Mapping[str, float], numbers: Numbers) -> LoadSummary:
    found = list(usages.values())
    return LoadSummary(
        Cores(max(found)),
        Cores(math.fsum(found) / len(found)),
        sum(is_above(used, numbers.threshold) for used in found),
        needed_replicas(found, numbers.target, numbers.threshold),
    )


def _note_judged(state: _SimulationState, judged: LastRotation | None) -> _SimulationState:
    """Adds what the last rotation brought, once that is known."""
    if judged is None:
        return state
    last = replace(state.rotations[-1], realised=judged.realised)
    return replace(state, last=judged, rotations=(*state.rotations[:-1], last))


def _apply_rotation(
    state: _SimulationState,
    assessment: Assessment,
    terms: SimulationTerms,
    now: float,
) -> _SimulationState:
    """All batches of one rotation are one dealing: they follow each other within minutes."""
    measured, proposal = assessment.measured, assessment.proposal
    note = None
    if measured is not None and proposal is not None:
        note = record_rotation(proposal, measured, state.last, float(int(now)))
    if note is None or proposal is None or proposal.numbers is None:
        raise ValueError("who rotates has a fleet, and a proposal with its numbers")
    pods = tuple(each.name for batch in assessment.batches for each in batch)
    predicted = proposal.numbers.predicted or note.top
    return _SimulationState(
        parts=redistribute(state.parts, pods, terms.stickiness),
        started={**state.started, **dict.fromkeys(pods, now)},
        last=note,
        rotations=(
            *state.rotations,
            SimulatedRotation(now, pods, note.top, predicted, note.improvement),
        ),
    )
