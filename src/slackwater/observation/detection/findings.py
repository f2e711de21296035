"""What detection found: what each source said, and which one decided. Values only."""

from typing import Literal

import msgspec

from slackwater.model.cgroup import CgroupVersion, Driver
from slackwater.model.gap import Gap

VersionLabel = Literal["v1", "v2", "hybrid"]

#: Ours first; the second is Volcano's name for the same thing.
VERSION_VARIABLES = ("SLACKWATER_CGROUP_VERSION", "VOLCANO_TEST_CGROUP_VERSION")
DRIVER_VARIABLE = "CGROUP_DRIVER"


class EnvironmentValueError(ValueError):
    """An environment variable with a value that it cannot have; str() is one sentence."""

    def __init__(self, variable: str, value: str, allowed: tuple[str, ...]) -> None:
        choices = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        super().__init__(f"{variable} is {value[:80]!r}; it must be {choices}")


class Finding(msgspec.Struct, frozen=True):
    """What one source said. `found` is None where it said nothing; `note` says why, or how."""

    source: str
    found: str | None
    note: str


class Undetected(Gap, frozen=True):
    """No version: what each source said instead."""

    findings: tuple[Finding, ...] = ()


class VersionVerdict(msgspec.Struct, frozen=True):
    """`label` describes the host; `version` is that of the hierarchy with the cpu controller."""

    label: VersionLabel
    version: CgroupVersion
    source: str
    findings: tuple[Finding, ...]

    def is_override(self) -> bool:
        """Whether a person said so: then directories count as they are, mounted or not."""
        return self.source in VERSION_VARIABLES


class DriverVerdict(msgspec.Struct, frozen=True):
    """`conflict` is a sentence where what was configured is not what stands on the disk."""

    driver: Driver
    source: str
    findings: tuple[Finding, ...]
    conflict: str | None = None
