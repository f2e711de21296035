"""The annotation in which a workload keeps its last rotation.

Owns its name and its spelling: whoever writes it and whoever reads it come here. One that cannot
be read is a Gap that says how to get rid of it.
"""

import math

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import (
    Cores,
    LastRotation,
    PercentOf,
    WorkloadName,
    WorkloadUsage,
)
from slackwater.rebalancer.selection import PodGroup, Proposal
from slackwater.record.timestamps import parse_timestamp
from slackwater.settings.rebalancer import MoveSettings

ANNOTATION = "slackwater.io/last-rotation"


def encode_last_rotation(last: LastRotation) -> str:
    return msgspec.json.encode(last).decode()


def decode_last_rotation(text: str, workload: WorkloadName) -> LastRotation | Gap:
    """What `text_of` wrote, as a person may have changed it."""
    try:
        last = msgspec.json.decode(text, type=LastRotation)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(str(error) or "nested too deeply", workload)
    if parse_timestamp(last.at) is None:
        return _unreadable(f"at is {quoted(last.at)}, but must be a time", workload)
    amounts = {"top": last.top, "mean": last.mean, "improvement": last.improvement}
    for name, amount in amounts.items():
        if not (math.isfinite(amount) and amount >= 0):
            return _unreadable(f"{name} is {quoted(amount)}, but must be zero or more", workload)
    for name, count in (("pods", last.pods), ("misses", last.misses), ("hot", last.hot)):
        if count < 0:
            return _unreadable(f"{name} is {quoted(count)}, but must be zero or more", workload)
    return last


def removal_command(workload: WorkloadName) -> str:
    """The command that removes it."""
    target = f"{workload.kind.lower()}/{workload.name} -n {workload.namespace}"
    return f"kubectl annotate {target} {ANNOTATION}-"


def _unreadable(why: str, workload: WorkloadName) -> Gap:
    return Gap(
        f"annotation {ANNOTATION} of {workload} cannot be read ({why}), so nobody knows when it "
        f"was rotated; remove it: {removal_command(workload)}"
    )


_MICROS = 1_000_000
_DAY = 86_400 * _MICROS
#: One miss may be chance.
_PATIENCE = 2
#: A day is less than 2^37 microseconds: no pause needs a larger exponent.
_LARGEST_EXPONENT = 37


def record_rotation(
    proposal: Proposal, measured: WorkloadUsage, last: LastRotation | Gap | None, at: str
) -> LastRotation | None:
    """What the annotation is to keep of this proposal; `at` in RFC 3339. None where none is
    rotated. Misses are carried on until a rotation is judged."""
    numbers = proposal.numbers
    if not proposal.rotate or numbers is None or numbers.average is None:
        return None
    if numbers.improvement is None:
        return None
    return LastRotation(
        at=at,
        top=numbers.average,
        mean=_mean(_usages(measured)),
        improvement=numbers.improvement,
        pods=len(proposal.rotate),
        misses=last.misses if isinstance(last, LastRotation) else 0,
        hot=sum(each.group is PodGroup.TOP for each in proposal.rotate),
    )


def judge_rotation(
    last: LastRotation, measured: WorkloadUsage, settings: MoveSettings, now: float
) -> LastRotation | None:
    """None: it is judged already, it is too early, or it cannot be said. Too early is also while
    a pod is younger than the window: its rate is of the time before it as well."""
    at = began(last)
    if last.judged or at is None or now - at < _seconds(settings.window):
        return None
    if any(each.age < _seconds(settings.window) for each in measured.pods if not each.terminating):
        return None
    realised = realised_improvement(last, measured)
    if realised is None:
        return None
    missed = realised < last.improvement / 2
    misses = last.misses + 1 if missed else 0
    return msgspec.structs.replace(last, misses=misses, judged=True, realised=realised)


def realised_improvement(last: LastRotation, measured: WorkloadUsage) -> PercentOf | None:
    """100 x (1 - (top now / mean now) / (top then / mean then)): by how much the skew has become
    less; negative where it has grown. Against the mean, so that a busier day is no miss."""
    usages = sorted(_usages(measured), reverse=True)
    if not usages or min(last.top, last.mean, last.hot) <= 0:
        return None
    mean = _mean(usages)
    if mean <= 0:
        return None
    skew = _mean(usages[: last.hot]) / mean
    return PercentOf(100 * (1 - skew / (last.top / last.mean)))


def pause_after(last: LastRotation, settings: MoveSettings) -> Micros:
    """The usual pause; x 2^misses after two misses in a row, then at most a day."""
    if last.misses < _PATIENCE:
        return settings.pause
    longer = settings.pause << min(last.misses, _LARGEST_EXPONENT)
    return Micros(max(settings.pause, min(longer, _DAY)))


def began(last: LastRotation) -> float | None:
    """In seconds since 1970; None where the annotation has no such time."""
    at = parse_timestamp(last.at)
    return None if at is None else at.timestamp()


def _usages(measured: WorkloadUsage) -> list[float]:
    """Of all pods that carry load."""
    return [
        each.usage
        for each in measured.pods
        if each.running and each.ready and not each.terminating and not isinstance(each.usage, Gap)
    ]


def _mean(amounts: list[float]) -> Cores:
    return Cores(math.fsum(amounts) / len(amounts) if amounts else 0.0)


def _seconds(duration: Micros) -> float:
    return duration / _MICROS
