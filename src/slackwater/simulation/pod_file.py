"""The pods of a scenario, as its file writes them.

Owns their keys, defaults and bounds.
"""

import re

from slackwater.contract.document import Field, elements
from slackwater.contract.kubernetes import milli_cpu
from slackwater.model.cgroup import Tier
from slackwater.model.units import UNLIMITED, Micros, MilliCpu
from slackwater.model.weight import LARGEST_SHARES
from slackwater.simulation.demand import FOREVER
from slackwater.simulation.demand_file import (
    Chance,
    duration,
    known,
    needed,
    number,
    read_demand,
    word,
)
from slackwater.simulation.scenario import ScenarioPod

SHORTEST, LONGEST = Micros(1_000_000), Micros(168 * 3_600_000_000)
ZERO, TICK = Micros(0), Micros(100_000)
MOST_PODS = 500
# A pod's name becomes its uid, and that a directory's name.
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_NAME_WANTED = "a name: at most 63 lower-case letters, digits and dashes"
_TIERS = {tier.value: tier for tier in Tier}
_KEYS = ("name", "tier", "request", "limit", "weight", "demand", "from", "until")


def read_pods(field: Field | None, seed: int) -> tuple[ScenarioPod, ...]:
    listed = () if field is None else elements(field)
    pods = tuple(read_pod(each, seed) for each in listed)
    if field is not None and len(pods) > MOST_PODS:
        raise Field(field.source, field.path, len(pods)).refused(f"at most {MOST_PODS} pods")
    for place, pod in enumerate(pods):
        check_new(pod, pods[:place], listed[place])
    return pods


def check_new(pod: ScenarioPod, others: tuple[ScenarioPod, ...], field: Field) -> None:
    if any(pod.name == other.name for other in others):
        raise field.at("name", pod.name).refused("a name that no other pod has")


def read_pod(field: Field, seed: int) -> ScenarioPod:
    said = known(field, *_KEYS)
    name = needed(field, said, "name", _NAME_WANTED)
    if not isinstance(name.value, str) or not _NAME.fullmatch(name.value):
        raise name.refused(_NAME_WANTED)
    if name.value in _TIERS:
        raise name.refused("a name that is no tier's")
    tier = needed(field, said, "tier", f"one of {', '.join(_TIERS)}")
    demand = needed(field, said, "demand", "a quantity or a shape")
    starts = duration(said["from"], ZERO, LONGEST) if "from" in said else ZERO
    later = Micros(starts + TICK)
    return ScenarioPod(
        name=name.value,
        tier=_TIERS[word(tier, {**_TIERS})],
        demand=read_demand(demand, Chance(f"{seed}/{name.value}")),
        request=_request(said, field),
        limit=milli_cpu(said["limit"]) or UNLIMITED if "limit" in said else UNLIMITED,
        weight=number(said["weight"], 1, LARGEST_SHARES) if "weight" in said else None,
        starts=starts,
        ends=duration(said["until"], later, LONGEST) if "until" in said else FOREVER,
    )


def _request(said: dict[str, Field], field: Field) -> MilliCpu:
    request = milli_cpu(said["request"]) if "request" in said else MilliCpu(0)
    if request and field.value["tier"] == Tier.BESTEFFORT.value:  # type: ignore[index]
        raise said["request"].refused("absent: a best-effort pod requests nothing")
    return request
