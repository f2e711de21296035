"""A scenario: a node, the work on it, and what happens to both, as values.

scenario_file reads them from a document.
"""

from collections.abc import Mapping

import msgspec

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.model.cgroup import CgroupVersion, Tier
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Unlimited
from slackwater.observation.objects.object_set import Objects
from slackwater.settings.agent_document import Settings
from slackwater.simulation.demand import FOREVER, Demand
from slackwater.simulation.scenario_machine import ScenarioMachine

#: Kubernetes' own default of terminationGracePeriodSeconds.
DEFAULT_GRACE = Micros(30_000_000)


class ScenarioPod(msgspec.Struct, frozen=True):
    """One pod with one container, in which its work runs. Without a `weight` it has the kubelet's.

    `age` is how long it had run when it came, here or elsewhere. An evicted pod works on for its
    `grace` period; where it is `replaced`, its controller's next one comes `replaced_after` that,
    unless the node is tainted: then it goes elsewhere until the taint is gone.
    """

    name: str
    tier: Tier
    demand: Demand
    request: MilliCpu = MilliCpu(0)
    limit: MilliCpu | Unlimited = UNLIMITED
    weight: int | None = None
    starts: Micros = Micros(0)
    ends: Micros = FOREVER
    labels: Mapping[str, str] = {}
    namespace: str = "default"
    priority: int = 0
    annotations: Mapping[str, str] = {}
    #: Requests and limits of extended resources, by name.
    extended: Mapping[str, int] = {}
    age: Micros = Micros(0)
    grace: Micros = DEFAULT_GRACE
    replaced: bool = False
    replaced_after: Micros = Micros(5_000_000)

    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


class ScenarioMetric(msgspec.Struct, frozen=True):
    """A metric's series that the scenario states, such as a service's latency: what a probe would
    answer. It does not react to what the agent does. `series` is in thousandths of the metric's
    unit. With a `source` it is that object's alone; of a `pod` it exists while the pod does."""

    name: str
    series: Demand
    source: str = ""
    labels: Mapping[str, str] = {}
    pod: str = ""
    starts: Micros = Micros(0)
    ends: Micros = FOREVER


class ScenarioJob(msgspec.Struct, frozen=True):
    """A batch job that waits for elastic CPU from `arrives` on, and then runs for `duration`.
    `ends_at` is when, once it runs."""

    name: str
    cpu: MilliCpu
    duration: Micros
    arrives: Micros = Micros(0)
    ends_at: Micros = FOREVER


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


class NewObjects(msgspec.Struct, frozen=True):
    """The objects of QoS ensurance from now on; `what` says for people what changed."""

    at: Micros
    ensurance: EnsuranceObjects
    what: str


class NewAnnotations(msgspec.Struct, frozen=True):
    """A pod has these annotations from now on, and no others."""

    at: Micros
    pod: str
    annotations: Mapping[str, str]


class Pressure(msgspec.Struct, frozen=True):
    """The agent is woken before its time, as by a PSI trigger."""

    at: Micros


class Blind(msgspec.Struct, frozen=True):
    """The node's usage cannot be read for a while."""

    at: Micros
    length: Micros


Event = Kill | RivalWrite | NewSettings | NewObjects | NewAnnotations | Pressure | Blind


class Scenario(msgspec.Struct, frozen=True):
    """`objects` is what the agent reads besides the pods; its settings are the scenario's.
    `system` is work outside the kubelet's tree. Without a `machine` its CPUs are cores of one
    socket."""

    name: str
    version: CgroupVersion
    cpus: int
    duration: Micros
    pods: tuple[ScenarioPod, ...] = ()
    events: tuple[Event, ...] = ()
    objects: Objects = Objects()
    system: Demand | None = None
    metrics: tuple[ScenarioMetric, ...] = ()
    seed: int = 0
    jobs: tuple[ScenarioJob, ...] = ()
    machine: ScenarioMachine | None = None
