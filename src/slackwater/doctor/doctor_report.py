"""What doctor says, as values: the stable form behind -o json and -o yaml."""

import msgspec

API_VERSION = "slackwater.io/v1"


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """What one source said about the version or the driver."""

    source: str
    found: str | None
    note: str


class WeightSection(msgspec.Struct, frozen=True, rename="camel"):
    """The formulas by which shares became weights: the kubelet's and the runtime's."""

    pods: str | None
    containers: str | None
    source: str


class CgroupSection(msgspec.Struct, frozen=True, rename="camel"):
    """`version` and `driver` are null where nothing could be found out; findings say why."""

    version: str | None
    version_source: str
    driver: str | None
    driver_source: str
    findings: tuple[Finding, ...]
    root: str
    kubepods: str | None
    weights: WeightSection


class KnobRow(msgspec.Struct, frozen=True, rename="camel"):
    """`works` is null where the file is there but was not tried."""

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
    packages: int
    cores: int
    cpus: str


class MachineSection(msgspec.Struct, frozen=True, rename="camel"):
    """null is "could not be read here", never "no"."""

    cpus: int | None
    topology: TopologyRow | None
    model: str | None
    smt: bool | None
    turbo: bool | None
    numa_nodes: int | None
    psi: bool | None


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """One sentence about what is wrong, one about what to do."""

    what: str
    action: str


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    api_version: str = API_VERSION
    kind: str = "DoctorReport"
    cgroup: CgroupSection
    knobs: tuple[KnobRow, ...]
    features: tuple[FeatureRow, ...]
    machine: MachineSection
    problems: tuple[Problem, ...]
    #: What a person should know, and need not mend.
    notes: tuple[Problem, ...] = ()
