"""The law of every knob but the quota: all wishes about one setting become one value.

Of several wishes the stricter one counts, and what is stricter is the knob's own: less memory and
less weight, but more of what is protected. Laws (property-tested): the order of intents does not
matter; the value is one that was asked for; one intent more never makes it laxer.
"""

import enum
from collections.abc import Sequence

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Contribution, Grant, SettingIntent, Verb
from slackwater.model.knob import (
    BURST,
    CPU_QOS_LEVEL,
    IDLE,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_QOS_LEVEL,
    WEIGHT,
)
from slackwater.model.units import Unlimited


class Stricter(enum.Enum):
    LESS = "less"
    MORE = "more"


_LAW = {
    WEIGHT.name: Stricter.LESS,
    IDLE.name: Stricter.MORE,  # whoever wants a group idle has a reason
    BURST.name: Stricter.LESS,
    MEMORY_MAX.name: Stricter.LESS,
    MEMORY_HIGH.name: Stricter.LESS,
    MEMORY_LOW.name: Stricter.MORE,
    MEMORY_MIN.name: Stricter.MORE,
    CPU_QOS_LEVEL.name: Stricter.LESS,
    MEMORY_QOS_LEVEL.name: Stricter.LESS,
}


def grant_setting(target: CgroupRef, knob: str, intents: Sequence[SettingIntent]) -> Grant:
    """`intents` are at least one, all about this knob. The deciding one comes last."""
    law = _LAW[knob]
    ordered = intents
    if len(intents) > 1:  # mostly there is one, and thousands of them
        ordered = sorted(intents, key=lambda intent: _sort_key(law, intent))
    steps = [Contribution(i.by, Verb.SET, i.value, i.value, i.because) for i in ordered]
    clipped_by = ordered[-1].by if ordered[-1].value != ordered[0].value else None
    return Grant(target, knob, ordered[-1].value, tuple(steps), clipped_by)


def _sort_key(law: Stricter, intent: SettingIntent) -> tuple[float, tuple[str, ...]]:
    amount = float("inf") if isinstance(intent.value, Unlimited) else float(intent.value)
    because = intent.because
    tie = (intent.by, because.signal, because.seen, because.limit)
    return (amount if law is Stricter.MORE else -amount), tie
