"""Which cgroup version the cpu controller has here.

Owns the order of the sources: the environment's override, the file system's magic number, the
mount table. A directory that is no cgroup file system has no version: a Gap, never a default.
"""

import os
from collections.abc import Mapping

import msgspec

from slackwater.model.cgroup import CgroupVersion, Controller
from slackwater.model.gap import Gap
from slackwater.observation.file_systems import filesystem_magic, read_mount_table
from slackwater.observation.mounts import (
    MagicOf,
    MountTable,
    VersionOf,
    directories_below,
    hierarchies,
    listed_controllers,
    v1_mounts,
    version_by_magic,
    version_by_table,
)
from slackwater.observation.roots import Roots
from slackwater.observation.verdicts import (
    VERSION_VARIABLES,
    EnvironmentValueError,
    Finding,
    Undetected,
    VersionLabel,
    VersionVerdict,
)

MAGIC_SOURCE = "file system magic"
MOUNT_TABLE_SOURCE = "mountinfo"


class _Judgement(msgspec.Struct, frozen=True):
    label: VersionLabel
    version: CgroupVersion
    note: str


_SPELLINGS = {
    "v1": _Judgement("v1", CgroupVersion.V1, "set in the environment"),
    "v2": _Judgement("v2", CgroupVersion.V2, "set in the environment"),
    "1": _Judgement("v1", CgroupVersion.V1, "set in the environment"),
    "2": _Judgement("v2", CgroupVersion.V2, "set in the environment"),
}


def detect_version(
    roots: Roots, environ: Mapping[str, str], magic_of: MagicOf = filesystem_magic
) -> VersionVerdict | Undetected:
    """The first source that answers decides; what each of them said is in the findings.

    Raises EnvironmentValueError for an override that is no version.
    """
    table = read_mount_table(roots)
    said: dict[str, _Judgement | Gap] = {
        **{variable: _override(variable, environ) for variable in VERSION_VARIABLES},
        MAGIC_SOURCE: _judge(roots, table, version_by_magic(magic_of)),
        MOUNT_TABLE_SOURCE: _judge(roots, table, version_by_table(table)),
    }
    findings = tuple(_finding(source, answer) for source, answer in said.items())
    for source, answer in said.items():
        if isinstance(answer, _Judgement):
            return VersionVerdict(answer.label, answer.version, source, findings)
    magic = next(finding for finding in findings if finding.source == MAGIC_SOURCE)
    return Undetected(magic.note, findings)


def _override(variable: str, environ: Mapping[str, str]) -> _Judgement | Gap:
    value = environ.get(variable, "")
    if not value:
        return Gap("not set")
    if value not in _SPELLINGS:
        raise EnvironmentValueError(variable, value, tuple(_SPELLINGS))
    return _SPELLINGS[value]


def _finding(source: str, answer: _Judgement | Gap) -> Finding:
    if isinstance(answer, Gap):
        return Finding(source, None, answer.reason)
    return Finding(source, answer.label, answer.note)


def _judge(roots: Roots, table: MountTable, version_of: VersionOf) -> _Judgement | Gap:
    top = roots.cgroup
    if not os.path.isdir(top):
        # The mount table also lists what another mount has hidden.
        return Gap(f"there is no directory {top}")
    match version_of(top):
        case Gap() as gap:
            return gap
        case CgroupVersion.V2:
            return _Judgement("v2", CgroupVersion.V2, f"{top} is a cgroup2 file system")
        case CgroupVersion.V1:
            return Gap(f"{top} is one v1 hierarchy; the cgroup root is the directory above it")
        case None:
            return _judge_below(top, hierarchies(directories_below(roots, table), version_of))


def _judge_below(top: str, there: dict[CgroupVersion, list[str]]) -> _Judgement | Gap:
    cpu = v1_mounts(there[CgroupVersion.V1]).get(Controller.CPU)
    unified = there[CgroupVersion.V2]
    if cpu and unified:
        note = f"cpu is v1 at {cpu.directory}, and cgroup2 is mounted at {unified[0]}"
        return _Judgement("hybrid", CgroupVersion.V1, note)
    if cpu:
        return _Judgement("v1", CgroupVersion.V1, f"cpu is v1 at {cpu.directory}")
    for directory in unified:
        if Controller.CPU in listed_controllers(directory):
            return _Judgement("hybrid", CgroupVersion.V2, f"cpu is v2 at {directory}")
    return Gap(f"{top} is no cgroup file system, and no cpu hierarchy is mounted below it")
