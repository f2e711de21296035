"""Who carries whose load after rotations: the model of what a rotation brings.

Owns the model. Load follows membership: when a group of pods is rotated, what they carried is dealt
anew among their successors, evened but for the part that is sticky (a hot key stays hot, whoever
serves it). What a recording says of a pod later is still said, of all who then carry its load.

So after any number of rotations a pod carries fixed parts of the recorded pods' loads. The parts of
one recorded pod sum to 1 over all who carry it, and so do the parts that one pod carries: no load
is lost or made, and no pod ever carries more than the hottest recorded one. Pure.
"""

import math
from collections.abc import Collection, Mapping

#: By carrier, then by recorded pod. Who is not in it carries itself.
Parts = Mapping[str, Mapping[str, float]]


def carried(parts: Parts, loads: Mapping[str, float]) -> dict[str, float]:
    """What each pod carries, in the unit of `loads` (cores), which are the recorded ones."""
    return {
        pod: math.fsum(part * loads[other] for other, part in parts[pod].items())
        if pod in parts
        else load
        for pod, load in loads.items()
    }


def dealt(parts: Parts, group: Collection[str], stickiness: float) -> Parts:
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


def left(parts: Parts, gone: str) -> Parts:
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
