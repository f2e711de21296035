"""The last rotation of a workload: the annotation that keeps it, whether it brought what was
predicted, and how long to wait before the next one.

Rotating helps only if load follows the pods. If a hot key stays hot whoever serves it, all that can
be done is to rotate less often. Pure: how a time is written is an argument.
"""

import math
from collections.abc import Callable

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
from slackwater.rebalancer.selection import Proposal
from slackwater.settings.rebalancer import MoveSettings

ANNOTATION = "slackwater.io/last-rotation"
_MICROS = 1_000_000
_DAY = 86_400 * _MICROS
#: One miss may be chance.
_TOLERATED_MISSES = 2
#: A day is less than 2^37 microseconds: no pause needs a larger exponent.
_LARGEST_EXPONENT = 37


class _StatedTime(msgspec.Struct, frozen=True):
    at: str


def encode_last_rotation(last: LastRotation, format_time: Callable[[float], str]) -> str:
    """The annotation's value; `format_time` writes seconds since 1970 as RFC 3339."""
    values = msgspec.to_builtins(last)
    return msgspec.json.encode({**values, "at": format_time(last.at)}).decode()


def decode_last_rotation(
    text: str, workload: WorkloadName, parse_time: Callable[[str], float | None]
) -> LastRotation | Gap:
    """The annotation's value, which somebody may have edited. A Gap says how to remove it.
    `parse_time` gives seconds since 1970, None for what is not RFC 3339."""
    try:
        stated = msgspec.json.decode(text, type=_StatedTime).at
        at = parse_time(stated)
        values = {**msgspec.json.decode(text, type=dict), "at": at or 0.0}
        last = msgspec.convert(values, LastRotation)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(str(error) or "nested too deeply", workload)
    if at is None:
        return _unreadable(f"at is {quoted(stated)}, but must be a time", workload)
    amounts = {"top": last.top, "mean": last.mean, "improvement": last.improvement}
    for name, amount in amounts.items():
        if not (math.isfinite(amount) and amount >= 0):
            return _unreadable(f"{name} is {quoted(amount)}, but must be zero or more", workload)
    for name, count in (("pods", last.pods), ("misses", last.misses), ("hot", last.hot)):
        if count < 0:
            return _unreadable(f"{name} is {quoted(count)}, but must be zero or more", workload)
    return last


def removal_command(workload: WorkloadName) -> str:
    target = f"{workload.kind.lower()}/{workload.name} -n {workload.namespace}"
    return f"kubectl annotate {target} {ANNOTATION}-"


def _unreadable(why: str, workload: WorkloadName) -> Gap:
    return Gap(
        f"annotation {ANNOTATION} of {workload} cannot be read ({why}), so it is not known when "
        f"it was rotated; remove it: {removal_command(workload)}"
    )


def record_rotation(
    proposal: Proposal, measured: WorkloadUsage, last: LastRotation | Gap | None, at: float
) -> LastRotation | None:
    """What the annotation is to keep of this proposal; None if no pod is to be rotated. Misses are
    carried over until the rotation is judged."""
    gain = proposal.numbers.gain if proposal.numbers else None
    if not proposal.rotate or gain is None:
        return None
    return LastRotation(
        at=at,
        top=gain.average,
        mean=_mean(_usages(measured)),
        improvement=gain.improvement,
        pods=len(proposal.rotate),
        misses=last.misses if isinstance(last, LastRotation) else 0,
        hot=len(proposal.hot),
    )


def judge_rotation(
    last: LastRotation, measured: WorkloadUsage, settings: MoveSettings, now: float
) -> LastRotation | None:
    """None if it is judged already, if it is too early, and if there are no numbers. It is too
    early until a window has passed and every pod is older than the window: the usage of a younger
    one includes time before it existed."""
    window = settings.window / _MICROS
    if last.judged or now - last.at < window:
        return None
    if any(measured.age(pod) < window for pod in measured.pods if not pod.terminating):
        return None
    realised = realised_improvement(last, measured)
    if realised is None:
        return None
    missed = realised < last.improvement / 2
    misses = last.misses + 1 if missed else 0
    return msgspec.structs.replace(last, misses=misses, judged=True, realised=realised)


def realised_improvement(last: LastRotation, measured: WorkloadUsage) -> PercentOf | None:
    """100 x (1 - (top now / mean now) / (top then / mean then)): by how much the skew became
    smaller; negative if it grew. Relative to the mean, so that a busier day is not a miss."""
    usages = sorted(_usages(measured), reverse=True)
    if not usages or min(last.top, last.mean, last.hot) <= 0:
        return None
    mean = _mean(usages)
    if mean <= 0:
        return None
    skew = _mean(usages[: last.hot]) / mean
    return PercentOf(100 * (1 - skew / (last.top / last.mean)))


def pause_after(last: LastRotation, settings: MoveSettings) -> Micros:
    """The configured pause; after two misses in a row x 2^misses, but then at most a day."""
    if last.misses < _TOLERATED_MISSES:
        return settings.pause
    longer = settings.pause << min(last.misses, _LARGEST_EXPONENT)
    return Micros(max(settings.pause, min(longer, _DAY)))


def _usages(measured: WorkloadUsage) -> list[float]:
    """Of all pods that carry load."""
    return [pod.usage for pod in measured.pods if pod.serves and not isinstance(pod.usage, Gap)]


def _mean(amounts: list[float]) -> Cores:
    return Cores(math.fsum(amounts) / len(amounts) if amounts else 0.0)
