"""Simulates a day of a workload twice, without and with rotation, in virtual time.

Every decision is made by `assess`, as in `plan` and `run`. What a rotation does to the load is a
model: load follows the pods. The load of pods that are rotated together is distributed among their
successors, evenly but for the part that is sticky (a hot key stays hot whoever serves it), and what
the recording says of a pod later applies to all that carry its load then.

So after any number of rotations a pod carries fixed shares of the recorded pods' loads. The shares
of one recorded pod add up to 1 over all that carry it, and so do the shares that one pod carries:
no load is lost or made, and no pod carries more than the hottest recorded one. Pure.
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
#: A quotient that is an integer but for rounding needs no further replica.
_SLACK = 1e-9


class Savings(msgspec.Struct, frozen=True, rename="camel"):
    """What an HPA needs less if load is more even: replicas x time, the same in requested CPU, and
    in percent of what it would need without rotation."""

    replica_hours: float
    core_hours: float
    percent: PercentOf


def needed_replicas(usages: Sequence[float], target: Cores, threshold: Cores) -> int:
    """Replicas that an HPA would need for the mean to be at the target and the hottest pod not
    above the threshold, if load divides among more pods in the same proportions:
    max(total / target, hottest x pods / threshold), rounded up; at least one. All in cores."""
    total, hottest = math.fsum(usages), max(usages)
    needed = max(total / target, hottest * len(usages) / threshold)
    return max(math.ceil(needed * (1 - _SLACK)), 1)


def compare_replicas(
    without: Sequence[int], rotated: Sequence[int], requests: Sequence[Cores], step: Seconds
) -> Savings:
    """Of each step: replicas needed without and with rotation, and the request of one pod."""
    fewer = [one - other for one, other in zip(without, rotated, strict=True)]
    cores = math.fsum(f * request for f, request in zip(fewer, requests, strict=True))
    all_cores = math.fsum(n * request for n, request in zip(without, requests, strict=True))
    hours = step / _HOUR
    percent = PercentOf(round(100 * cores / all_cores if all_cores else 0.0, 2))
    return Savings(round(sum(fewer) * hours, 2), round(cores * hours, 2), percent)


#: Shares of recorded loads, by the pod that carries them, then by the recorded pod. A pod that is
#: not in it carries its own load.
LoadShares = Mapping[str, Mapping[str, float]]


def carried_load(shares: LoadShares, loads: Mapping[str, float]) -> dict[str, float]:
    """What each pod carries, in the unit of the recorded `loads`."""
    return {
        pod: math.fsum(share * loads[other] for other, share in shares[pod].items())
        if pod in shares
        else load
        for pod, load in loads.items()
    }


def redistribute(shares: LoadShares, group: Collection[str], stickiness: float) -> LoadShares:
    """After the group was rotated: each successor carries an equal share of what all carried,
    except for `stickiness` (0 to 1) of its predecessor's own."""
    rows = {pod: shares.get(pod, {pod: 1.0}) for pod in group}
    even: dict[str, float] = {}
    for row in rows.values():
        for other, share in row.items():
            even[other] = even.get(other, 0.0) + share / len(rows)
    anew = {
        pod: {
            other: stickiness * row.get(other, 0.0) + (1 - stickiness) * share
            for other, share in even.items()
        }
        for pod, row in rows.items()
    }
    return {**shares, **anew}


def remove_pod(shares: LoadShares, gone: str) -> LoadShares:
    """After a pod left the recording. What it would have carried goes to those that carry its load,
    so that all sums stay 1: a Markov chain censored to the remaining pods."""
    if gone not in shares:
        return shares
    passed_on = {other: share for other, share in shares[gone].items() if other != gone and share}
    whole = math.fsum(passed_on.values())
    rest: dict[str, Mapping[str, float]] = {}
    for pod, row in shares.items():
        if pod == gone:
            continue
        through = row.get(gone, 0.0)
        kept = {other: share for other, share in row.items() if other != gone}
        for other, share in passed_on.items() if through else ():
            kept[other] = kept.get(other, 0.0) + through * share / whole
        rest[pod] = kept
    return rest


_NAME = WorkloadName("simulated", "Deployment", "simulated")
_CONTAINER = "main"
_NO_LIMIT = Gap("a recording has no limits")
_MICROS = 1_000_000


class SimulationTerms(msgspec.Struct, frozen=True):
    """`stickiness`: the part of a pod's load that goes to its own successor, 0 to 1."""

    hpa_target: HpaTarget
    moves: MoveSettings = MoveSettings()
    stickiness: float = 0.0


class LoadSummary(msgspec.Struct, frozen=True):
    """The pods in one step: `above` counts those above the threshold, `replicas` is what an HPA
    would need."""

    hottest: Cores
    mean: Cores
    above: int
    replicas: int


class SimulatedStep(msgspec.Struct, frozen=True, rename="camel"):
    """`reason` is ROTATED, or why not."""

    at: float
    pods: int
    target: Cores
    threshold: Cores
    without: LoadSummary
    rotated: LoadSummary = msgspec.field(name="with")
    reason: Reason


class SimulatedRotation(msgspec.Struct, frozen=True, rename="camel"):
    """`average`: of the hot pods; `improvement`: predicted, in percent of it. `realised`: known
    once the window has passed; None if the day was over or there were no numbers."""

    at: float
    pods: tuple[str, ...]
    average: Cores
    predicted: Cores
    improvement: PercentOf
    realised: PercentOf | None = None


class SimulationResult(msgspec.Struct, frozen=True):
    steps: tuple[SimulatedStep, ...]
    rotations: tuple[SimulatedRotation, ...]


class _SimulationState(msgspec.Struct, frozen=True):
    """Between two steps. `started`: of each pod that is present."""

    shares: LoadShares = {}
    started: Mapping[str, float] = {}
    last: LastRotation | None = None
    rotations: tuple[SimulatedRotation, ...] = ()


def simulate_day(
    day: Day, terms: SimulationTerms, passed: Callable[[], object] = lambda: None
) -> SimulationResult:
    """`passed` is called after each step, for a progress bar."""
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
    usages = carried_load(state.shares, recorded)
    assessment = _assess(moment, usages, state, terms)
    step = _step(moment, recorded, usages, assessment.reason or Reason.ROTATED, terms)
    state = _note_judged(state, assessment.judged)
    if assessment.rotates:
        state = _apply_rotation(state, assessment, terms, moment.at)
    return step, state


def _initial_start_times(day: Day, terms: SimulationTerms) -> dict[str, float]:
    """The first pods are old enough to be rotated: a recording does not say when they started."""
    first = day.moments[0] if day.moments else Moment(0.0, {})
    started = first.at - terms.moves.youngest / _MICROS - day.step
    return dict.fromkeys(first.loads, started)


def _update_pods(state: _SimulationState, moment: Moment) -> _SimulationState:
    """Removes pods that are gone from the shares, and adds new ones, which start in this step."""
    shares = state.shares
    for gone in sorted(state.started.keys() - moment.loads.keys()):
        shares = remove_pod(shares, gone)
    started = {pod: state.started.get(pod, moment.at) for pod in moment.loads}
    return replace(state, shares=shares, started=started)


def _observe(moment: Moment, state: _SimulationState, hpa_target: HpaTarget) -> ObservedWorkload:
    pods = tuple(
        PodUsage(
            name=pod,
            uid=f"{pod}@{state.started[pod]:g}",
            node="",
            started=state.started[pod],
            containers=(ContainerAmounts(_CONTAINER, load.request, _NO_LIMIT),),
        )
        for pod, load in moment.loads.items()
    )
    scaling = Scaling(len(pods), len(pods))
    return ObservedWorkload(_NAME, "apps/v1", "", "", pods, hpa_target, scaling, last=state.last)


def _usage(usages: Mapping[str, float]) -> NamespaceUsage:
    return NamespaceUsage({(pod, _CONTAINER): Cores(used) for pod, used in usages.items()}, {})


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
    """Both runs are measured on all pods, however young, and against the same threshold."""
    state = _SimulationState(started=dict.fromkeys(moment.loads, moment.at))
    moves = replace(terms.moves, minimum_pod_age=Micros(0))
    observed, usage = _observe(moment, state, terms.hpa_target), _usage(recorded)
    measured = merge_usage(observed, usage, _settings(moves), RequestSource.SPEC, moment.at)
    numbers = propose(measured, moves).numbers
    if numbers is None:
        raise ValueError("a day's pods have usage and request, so there is a threshold")
    return SimulatedStep(
        at=moment.at,
        pods=len(moment.loads),
        target=numbers.target,
        threshold=numbers.threshold,
        without=_summarize(recorded, numbers),
        rotated=_summarize(usages, numbers),
        reason=reason,
    )


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
    """All batches of a rotation count as one: they follow each other within minutes."""
    measured, proposal = assessment.measured, assessment.proposal
    last = None
    if measured is not None and proposal is not None:
        last = record_rotation(proposal, measured, state.last, float(int(now)))
    gain = proposal.numbers.gain if proposal and proposal.numbers else None
    if last is None or gain is None:
        raise ValueError("a workload that is rotated has usage, and a proposal with a gain")
    pods = tuple(each.name for batch in assessment.batches for each in batch)
    return _SimulationState(
        shares=redistribute(state.shares, pods, terms.stickiness),
        started={**state.started, **dict.fromkeys(pods, now)},
        last=last,
        rotations=(
            *state.rotations,
            SimulatedRotation(now, pods, gain.average, gain.predicted, gain.improvement),
        ),
    )
