"""The result of `slackwater doctor` as values: the stable form behind -o json and -o yaml."""

import msgspec

from slackwater.observation.detection.findings import Finding

API_VERSION = "slackwater.io/v1"


class WeightSection(msgspec.Struct, frozen=True, rename="camel"):
    """The formulas by which shares became weights: the kubelet's and the runtime's."""

    pods: str | None
    containers: str | None
    source: str


class CgroupSection(msgspec.Struct, frozen=True, rename="camel"):
    """`version` and `driver` are null if they could not be detected; findings say why."""

    version: str | None
    version_source: str
    driver: str | None
    driver_source: str
    findings: tuple[Finding, ...]
    root: str
    kubepods: str | None
    weights: WeightSection


class KnobRow(msgspec.Struct, frozen=True, rename="camel"):
    """`works` is null if the file exists but was not tried."""

    knob: str
    level: str
    file: str | None
    works: bool | None
    note: str


class FeatureRow(msgspec.Struct, frozen=True, rename="camel"):
    """`possible` is null where it depends on a knob that was not tried. `built` is whether this
    version of Slackwater has it at all."""

    feature: str
    possible: bool | None
    because: str
    built: bool = True


class TopologyRow(msgspec.Struct, frozen=True, rename="camel"):
    """`caches` is how many last-level caches the CPUs share."""

    packages: int
    cores: int
    cpus: str
    caches: int


class CpuManagerSection(msgspec.Struct, frozen=True, rename="camel"):
    """The kubelet's CPU manager, and the CPUs that no pod gets alone. `policy` is null if it is not
    known; the source says why. `assigned` is what the kubelet gave to containers."""

    policy: str | None
    source: str
    assigned: str
    reserved: str
    reserved_source: str


class MachineSection(msgspec.Struct, frozen=True, rename="camel"):
    """null means that it could not be read, never "no"."""

    cpus: int | None
    topology: TopologyRow | None
    model: str | None
    smt: bool | None
    turbo: bool | None
    numa_nodes: int | None
    psi: bool | None


class ZoneRow(msgspec.Struct, frozen=True, rename="camel"):
    """Memory in bytes; null if it could not be read."""

    name: str
    cpus: int
    memory: int | None
    hugepages: dict[str, int]


class TopologySection(msgspec.Struct, frozen=True, rename="camel"):
    """What an agent in a cluster reports as its node's NodeResourceTopology, not amplified.
    `cpu_basic_info` is the annotation; null if the machine does not tell, and then `problem` says
    why."""

    cpu_basic_info: str | None
    policy: str
    zones: tuple[ZoneRow, ...]
    problem: str = ""


class StartSection(msgspec.Struct, frozen=True, rename="camel"):
    """Whether an agent can set quotas before containers start (NRI): null where it cannot be seen
    from here. Without it the next tick sets them."""

    nri: bool | None
    socket: str
    because: str


class DoctorProblem(msgspec.Struct, frozen=True, rename="camel"):
    """One sentence about what is wrong, one about what to do."""

    what: str
    action: str


class DoctorReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    api_version: str = API_VERSION
    kind: str = "DoctorReport"
    cgroup: CgroupSection
    knobs: tuple[KnobRow, ...]
    features: tuple[FeatureRow, ...]
    machine: MachineSection
    cpu_manager: CpuManagerSection
    topology: TopologySection
    container_starts: StartSection
    problems: tuple[DoctorProblem, ...]
    #: Worth knowing, but nothing to fix.
    notes: tuple[DoctorProblem, ...] = ()
