"""Answers and their percentiles. Pure.

Owns the definition: latency is from the intended time of sending to the last byte of the answer,
in milliseconds; a percentile is the smallest latency that so many of the answers do not exceed.
A request without an answer counts with the time that was waited for it.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """`at` is the intended time in seconds after the phase's start."""

    at: float
    milliseconds: float
    ok: bool = True


class Percentiles(msgspec.Struct, frozen=True, rename="camel"):
    """In milliseconds."""

    p50: float
    p90: float
    p99: float
    worst: float


class Bin(msgspec.Struct, frozen=True, rename="camel"):
    """The answers to what was meant to be sent in one stretch of time."""

    at: float
    until: float
    p50: float
    p90: float


def percentile(ascending: Sequence[float], percent: float) -> float:
    """Nearest rank."""
    rank = math.ceil(percent / 100 * len(ascending))
    return ascending[min(max(rank, 1), len(ascending)) - 1]


def percentiles(answers: Iterable[Answer]) -> Percentiles | None:
    """None where there was no request."""
    ascending = sorted(answer.milliseconds for answer in answers)
    if not ascending:
        return None
    p50, p90, p99 = (round(percentile(ascending, p), 3) for p in (50, 90, 99))
    return Percentiles(p50, p90, p99, round(ascending[-1], 3))


def bins(answers: Iterable[Answer], length: float) -> tuple[Bin, ...]:
    """Stretches without a request are left out."""
    by_bin: dict[int, list[float]] = {}
    for answer in answers:
        by_bin.setdefault(int(answer.at / length), []).append(answer.milliseconds)
    found = []
    for number, values in sorted(by_bin.items()):
        values.sort()
        p50, p90 = (round(percentile(values, p), 3) for p in (50, 90))
        found.append(Bin(round(number * length, 3), round((number + 1) * length, 3), p50, p90))
    return tuple(found)
