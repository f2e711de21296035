"""What a Volcano user says about one pod: its annotations.

Owns the annotation keys and their values. Refuses nothing by raising: a bad value is a Gap, or
a problem beside the effect that Volcano gives it, and each is one sentence that names the
annotation, the value and what to write. The pod's other annotations go on.
"""

import enum
import re
from collections.abc import Mapping

from slackwater.contract.decoding import BOOL_WANTED, parse_bool
from slackwater.contract.document import Field, Spelling, parse_json
from slackwater.contract.volcano_memory_ratios import MemoryQosRatios, read_ratios
from slackwater.model.gap import Gap
from slackwater.model.knob import LARGEST_QUOTA
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import Micros
from slackwater.model.workload import BurstRequest

QOS_LEVEL = "volcano.sh/qos-level"
ENABLE_QUOTA_BURST = "volcano.sh/enable-quota-burst"
QUOTA_BURST_TIME = "volcano.sh/quota-burst-time"
COLOCATION_CONFIG = "volcano.sh/colocation-config"
#: Which ColocationConfiguration the controller applied; only to be shown.
COLOCATION_CONFIG_NAME = "volcano.sh/colocation-config-name"

# Go's strconv.Atoi, up to 18 digits.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TIME_WANTED = f"a whole number from 1 to {LARGEST_QUOTA} (microseconds); the quota counts instead"


class QosLevel(enum.Enum):
    """How dear the pod's latency is, by Volcano's words; NONE where it says nothing."""

    LC = "LC"  # latency critical
    HLS = "HLS"  # highly latency sensitive
    LS = "LS"  # latency sensitive
    NONE = ""
    BE = "BE"  # best effort, whatever the kubelet's class is

    @property
    def number(self) -> int:
        """What the vendor's cpu.qos_level calls it."""
        return _NUMBERS[self]


_NUMBERS = {QosLevel.LC: 2, QosLevel.HLS: 2, QosLevel.LS: 1, QosLevel.NONE: 0, QosLevel.BE: -1}


def qos_level(annotations: Mapping[str, str]) -> QosLevel | Gap:
    """The pod's level. Volcano reads a word that it does not know as none, silently."""
    word = annotations.get(QOS_LEVEL, "")
    known = {level.value: level for level in QosLevel}
    if word not in known:
        wanted = f"one of {', '.join(filter(None, known))}"
        return Gap(_problem(QOS_LEVEL, word, wanted).sentence())
    return known[word]


def quota_burst(annotations: Mapping[str, str]) -> BurstRequest | Gap | None:
    """Whether the pod may burst and by how much; None where it may not."""
    said = annotations.get(ENABLE_QUOTA_BURST, "")
    enabled = parse_bool(said) if said else False
    if enabled is None:
        return Gap(_problem(ENABLE_QUOTA_BURST, said, BOOL_WANTED).sentence())
    return _burst(annotations.get(QUOTA_BURST_TIME)) if enabled else None


def _burst(said: str | None) -> BurstRequest:
    """Absent means as much as the quota; so does, in Volcano, what cannot be used, and 0. Who
    writes 0, or nothing, may have meant none: that is told."""
    if said is None:
        return BurstRequest()
    time = int(said) if _WHOLE.fullmatch(said) else None
    if not time or not 0 <= time <= LARGEST_QUOTA:
        return BurstRequest(None, _problem(QUOTA_BURST_TIME, said, _TIME_WANTED).sentence())
    return BurstRequest(Micros(time))


def memory_qos(annotations: Mapping[str, str]) -> MemoryQosRatios | Gap | None:
    """The pod's memory ratios; None where nobody said, and "{}" is a reset to the defaults."""
    said = annotations.get(COLOCATION_CONFIG, "")
    if not said:
        return None
    where = _where(COLOCATION_CONFIG)
    try:
        # Go's JSON: keys in any case, and null is an object that says nothing.
        found = parse_json(said, where)
        return read_ratios(Field(where, "", {} if found is None else found, Spelling.ANY_CASE))
    except InvalidError as error:
        return Gap(str(error))


def _problem(key: str, value: str, wanted: str) -> Problem:
    return Problem(_where(key), quoted(value), wanted)


def _where(key: str) -> str:
    return f"the annotation {key}"
