"""A scenario: a node, the work on it, and what happens to both, as values.

scenario_file reads them from a document.
"""

from collections.abc import Mapping

import msgspec

from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Unlimited
from slackwater.observation.objects.object_set import Objects
from slackwater.settings.agent_document import Settings
from slackwater.simulation.demand import FOREVER, Demand


class ScenarioPod(msgspec.Struct, frozen=True):
    """One pod, with one cgroup in which its work runs. Without a `weight` it has the kubelet's."""

    name: str
    tier: Tier
    demand: Demand
    request: MilliCpu = MilliCpu(0)
    limit: MilliCpu | Unlimited = UNLIMITED
    weight: int | None = None
    starts: Micros = Micros(0)
    ends: Micros = FOREVER
    labels: Mapping[str, str] = {}


class Kill(msgspec.Struct, frozen=True):
    """kill -9 of the agent; a new one starts after `down`."""

    at: Micros
    down: Micros = Micros(0)


class RivalWrite(msgspec.Struct, frozen=True):
    """Another process writes the quota of a tier or a pod, given by name."""

    at: Micros
    target: str
    quota: MilliCpu | Unlimited


class NewSettings(msgspec.Struct, frozen=True):
    """The settings from now on."""

    at: Micros
    settings: Settings


class Pressure(msgspec.Struct, frozen=True):
    """The agent is woken before its time, as by a PSI trigger."""

    at: Micros


class Blind(msgspec.Struct, frozen=True):
    """The node's usage cannot be read for a while."""

    at: Micros
    length: Micros


Event = Kill | RivalWrite | NewSettings | Pressure | Blind


class Scenario(msgspec.Struct, frozen=True):
    """`objects` is what the agent reads besides the pods; its settings are the scenario's.
    `system` is work outside the kubelet's tree."""

    name: str
    version: CgroupVersion
    cpus: int
    duration: Micros
    pods: tuple[ScenarioPod, ...] = ()
    events: tuple[Event, ...] = ()
    objects: Objects = Objects()
    system: Demand | None = None
    seed: int = 0
