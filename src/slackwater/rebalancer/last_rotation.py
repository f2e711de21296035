"""The annotation in which a workload keeps its last rotation.

Owns its name and its spelling: whoever writes it and whoever reads it come here. One that cannot
be read is a Gap that says how to get rid of it.
"""

import math

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.rebalancer.fleet import LastRotation, WorkloadName
from slackwater.record.ages import moment

ANNOTATION = "slackwater.io/last-rotation"


def text_of(last: LastRotation) -> str:
    return msgspec.json.encode(last).decode()


def read_last(text: str, workload: WorkloadName) -> LastRotation | Gap:
    """What `text_of` wrote, as a person may have changed it."""
    try:
        last = msgspec.json.decode(text, type=LastRotation)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(str(error) or "nested too deeply", workload)
    if moment(last.at) is None:
        return _unreadable(f"at is {quoted(last.at)}, but must be a time", workload)
    amounts = {"top": last.top, "mean": last.mean, "improvement": last.improvement}
    for name, amount in amounts.items():
        if not (math.isfinite(amount) and amount >= 0):
            return _unreadable(f"{name} is {quoted(amount)}, but must be zero or more", workload)
    for name, count in (("pods", last.pods), ("misses", last.misses), ("hot", last.hot)):
        if count < 0:
            return _unreadable(f"{name} is {quoted(count)}, but must be zero or more", workload)
    return last


def removal_of(workload: WorkloadName) -> str:
    """The command that removes it."""
    target = f"{workload.kind.lower()}/{workload.name} -n {workload.namespace}"
    return f"kubectl annotate {target} {ANNOTATION}-"


def _unreadable(why: str, workload: WorkloadName) -> Gap:
    return Gap(
        f"annotation {ANNOTATION} of {workload} cannot be read ({why}), so nobody knows when it "
        f"was rotated; remove it: {removal_of(workload)}"
    )
