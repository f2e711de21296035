"""Which cgroup version the cpu controller has here, and in which directory each controller is.

Owns the order of the sources (the environment's override, the file system's magic number, the
mount table), statfs and the text of mountinfo. A directory counts by the file system it is on; by
its name alone only where a person has set the version (a test's plain folders). A directory on
another file system has no version: a Gap, never a default. Python's os.statvfs has no f_type, so
the C library's statfs is called through ctypes, loaded only when asked (0.2 MiB, measured).
"""

import os
import re
import sys
from collections.abc import Callable, Mapping

import msgspec

from slackwater.bounded_read import read_start
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupVersion, Mount
from slackwater.model.gap import Gap
from slackwater.observation.detection.findings import (
    VERSION_VARIABLES,
    EnvironmentValueError,
    Finding,
    Undetected,
    VersionLabel,
    VersionVerdict,
)
from slackwater.observation.host import Roots

#: include/uapi/linux/magic.h
CGROUP1_MAGIC = 0x27E0EB
CGROUP2_MAGIC = 0x63677270
VERSION_BY_MAGIC = {CGROUP1_MAGIC: CgroupVersion.V1, CGROUP2_MAGIC: CgroupVersion.V2}
#: The names of the same two in the mount table.
VERSION_BY_NAME = {"cgroup": CgroupVersion.V1, "cgroup2": CgroupVersion.V2}

#: struct statfs has at most 120 bytes on any architecture.
_STATFS_BYTES = 256
#: f_type comes first: four bytes on s390x, a long elsewhere, and those machines are little-endian.
_TYPE_BYTES = 4

# show_mountinfo in fs/proc_namespace.c: "36 35 98:0 /root /point options optional* - type source".
_OPTIONAL_FIELDS_AT = 6
_MOUNT_POINT_AT = 4
# mangle() in fs/seq_file.c escapes blank, tab, newline and backslash as three octal digits.
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")


class MountPoint(msgspec.Struct, frozen=True):
    """One line of the mount table: where, and the file system's name."""

    directory: str
    kind: str


def filesystem_magic(path: str) -> int | Gap:
    """f_type of statfs(2)."""
    try:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(_STATFS_BYTES)
        failed = library.statfs(os.fsencode(path), buffer)
    except (ImportError, OSError, AttributeError):
        return Gap(f"the file system of {path} is unknown: this Python cannot call statfs")
    if failed:
        return Gap(f"statfs of {path}: {os.strerror(ctypes.get_errno())}")
    return int.from_bytes(buffer.raw[:_TYPE_BYTES], sys.byteorder)


def read_mount_table(roots: Roots) -> tuple[MountPoint, ...] | Gap:
    """Our own mounts: a container's table lists the host's cgroups where it mounted them."""
    path = f"{roots.proc}/self/mountinfo"
    match read_start(path):
        case Gap(reason):
            return Gap(f"{path} is {reason}")
        case contents:
            return parse_mountinfo(contents.data)


def parse_mountinfo(data: bytes) -> tuple[MountPoint, ...]:
    """Lines that are not the kernel's are left out."""
    return tuple(point for line in data.split(b"\n") if (point := _parse_line(line)))


def covering(table: tuple[MountPoint, ...], path: str) -> MountPoint | None:
    """The mount that a path is on: the longest mount point above it, the latest of equals."""
    real = os.path.realpath(path)
    above = [point for point in table if is_below(real, point.directory)]
    longest = max((len(point.directory) for point in above), default=0)
    return next((point for point in reversed(above) if len(point.directory) == longest), None)


def is_below(path: str, directory: str) -> bool:
    """Whether a path is this directory or lies in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _parse_line(line: bytes) -> MountPoint | None:
    fields = line.split(b" ")
    try:
        kind = fields[fields.index(b"-", _OPTIONAL_FIELDS_AT) + 1]
    except (ValueError, IndexError):
        return None
    point = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 8),)), fields[_MOUNT_POINT_AT])
    if not point.startswith(b"/") or not kind:
        return None
    return MountPoint(os.fsdecode(point), os.fsdecode(kind))


_CONTROLLERS_FILE = "cgroup.controllers"
#: Those of them that child groups get.
FOR_CHILDREN = "cgroup.subtree_control"
_CONTROLLERS = {controller.value: controller for controller in CgroupController}

MountTable = tuple[MountPoint, ...] | Gap
MagicOf = Callable[[str], int | Gap]
#: None: a directory on some other file system.
VersionOf = Callable[[str], CgroupVersion | Gap | None]


def find_mounts(
    roots: Roots, verdict: VersionVerdict, magic_of: MagicOf = filesystem_magic
) -> CgroupMounts | Gap:
    """The directory of each controller. A hybrid host's version differs by controller."""
    if verdict.label == "v2":
        found = _unified_mounts(roots.cgroup, verdict)
    elif verdict.is_override():
        found = v1_mounts(directories_below(roots, ()))
    else:
        found = _mounted(roots, magic_of)
    return CgroupMounts(found) if found else Gap(f"no controller is mounted at {roots.cgroup}")


def version_by_magic(magic_of: MagicOf) -> VersionOf:
    def version_of(path: str) -> CgroupVersion | Gap | None:
        magic = magic_of(path)
        return magic if isinstance(magic, Gap) else VERSION_BY_MAGIC.get(magic)

    return version_of


def version_by_table(table: MountTable) -> VersionOf:
    def version_of(path: str) -> CgroupVersion | Gap | None:
        if isinstance(table, Gap):
            return table
        point = covering(table, path)
        return VERSION_BY_NAME.get(point.kind) if point else None

    return version_of


def directories_below(roots: Roots, table: MountTable) -> list[str]:
    """Those in the cgroup root, symbolic links too, then deeper mounts that the table knows."""
    top = roots.cgroup
    try:
        names = sorted(os.listdir(top))
    except OSError:
        names = []
    direct = [f"{top}/{name}" for name in names if os.path.isdir(f"{top}/{name}")]
    points = () if isinstance(table, Gap) else table
    mounted = {
        point.directory
        for point in points
        if is_below(point.directory, top) and point.directory != top
        if os.path.isdir(point.directory)  # the table also lists what another mount has hidden
    }
    found = direct + sorted(mounted.difference(direct))
    # These names are shown to people and sent as JSON, which garbage would break.
    return [directory for directory in found if directory.isprintable()]


def hierarchies(directories: list[str], version_of: VersionOf) -> dict[CgroupVersion, list[str]]:
    """The directories that are cgroup file systems, by version."""
    found: dict[CgroupVersion, list[str]] = {version: [] for version in CgroupVersion}
    for directory in directories:
        version = version_of(directory)
        if isinstance(version, CgroupVersion):
            found[version].append(directory)
    return found


def v1_mounts(directories: list[str]) -> dict[CgroupController, Mount]:
    """By name: cpu, else a hierarchy that several share, such as cpu,cpuacct.

    Symbolic links are followed, so that controllers of one hierarchy have one directory.
    """
    found: dict[CgroupController, Mount] = {}
    for directory in sorted(directories, key=lambda path: os.path.basename(path).count(",")):
        for name in os.path.basename(directory).split(","):
            if name in _CONTROLLERS:
                mount = Mount(CgroupVersion.V1, os.path.realpath(directory))
                found.setdefault(_CONTROLLERS[name], mount)
    return found


def listed_controllers(
    directory: str, file: str = _CONTROLLERS_FILE
) -> tuple[CgroupController, ...]:
    """Those that a cgroup2 directory lists. cpuacct is part of cpu there."""
    contents = read_start(f"{directory}/{file}")
    names = set() if isinstance(contents, Gap) else set(contents.data.split())
    if b"cpu" in names:
        names.add(b"cpuacct")
    return tuple(c for c in CgroupController if c.value.encode() in names)


def _mounted(roots: Roots, magic_of: MagicOf) -> dict[CgroupController, Mount]:
    """v1 where a controller has a v1 hierarchy; a cgroup2 mount has what it lists besides."""
    table = read_mount_table(roots)
    by_magic, by_table = version_by_magic(magic_of), version_by_table(table)

    def version_of(path: str) -> CgroupVersion | Gap | None:
        found = by_magic(path)
        return by_table(path) if isinstance(found, Gap) else found

    there = hierarchies(directories_below(roots, table), version_of)
    unified = {
        controller: Mount(CgroupVersion.V2, directory)
        for directory in reversed(there[CgroupVersion.V2])
        for controller in listed_controllers(directory)
    }
    return unified | v1_mounts(there[CgroupVersion.V1])


def _unified_mounts(directory: str, verdict: VersionVerdict) -> dict[CgroupController, Mount]:
    """What the kernel lists; a test's plain directory, without such a list, has them all."""
    plain = verdict.is_override() and not os.path.exists(f"{directory}/{_CONTROLLERS_FILE}")
    there = tuple(CgroupController) if plain else listed_controllers(directory)
    mount = Mount(CgroupVersion.V2, directory)
    return dict.fromkeys(there, mount) if os.path.isdir(directory) else {}


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

    Raises EnvironmentValueError for an override that is not a version.
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
    return Undetected(magic.note, findings=findings)


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
    cpu = v1_mounts(there[CgroupVersion.V1]).get(CgroupController.CPU)
    unified = there[CgroupVersion.V2]
    if cpu and unified:
        note = f"cpu is v1 at {cpu.directory}, and cgroup2 is mounted at {unified[0]}"
        return _Judgement("hybrid", CgroupVersion.V1, note)
    if cpu:
        return _Judgement("v1", CgroupVersion.V1, f"cpu is v1 at {cpu.directory}")
    for directory in unified:
        if CgroupController.CPU in listed_controllers(directory):
            return _Judgement("hybrid", CgroupVersion.V2, f"cpu is v2 at {directory}")
    return Gap(f"{top} is not a cgroup file system, and no cpu hierarchy is mounted below it")
