"""In which directory each controller is: the hierarchies at and below the cgroup root.

Owns find_mounts and the looking around that it needs. A directory counts by the file system
it is on; by its name alone only where a person has set the version (a test's plain folders).
"""

import os
from collections.abc import Callable

from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Controller, Mount
from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import read_start
from slackwater.observation.file_systems import (
    VERSION_BY_MAGIC,
    VERSION_BY_NAME,
    MountPoint,
    covering,
    filesystem_magic,
    is_below,
    read_mount_table,
)
from slackwater.observation.roots import Roots
from slackwater.observation.verdicts import VersionVerdict

_CONTROLLERS_FILE = "cgroup.controllers"
#: Those of them that child groups get.
FOR_CHILDREN = "cgroup.subtree_control"
_CONTROLLERS = {controller.value: controller for controller in Controller}

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


def v1_mounts(directories: list[str]) -> dict[Controller, Mount]:
    """By name: cpu, else a hierarchy that several share, such as cpu,cpuacct.

    Symbolic links are followed, so that controllers of one hierarchy have one directory.
    """
    found: dict[Controller, Mount] = {}
    for directory in sorted(directories, key=lambda path: os.path.basename(path).count(",")):
        for name in os.path.basename(directory).split(","):
            if name in _CONTROLLERS:
                mount = Mount(CgroupVersion.V1, os.path.realpath(directory))
                found.setdefault(_CONTROLLERS[name], mount)
    return found


def listed_controllers(directory: str, file: str = _CONTROLLERS_FILE) -> tuple[Controller, ...]:
    """Those that a cgroup2 directory lists. cpuacct is part of cpu there."""
    contents = read_start(f"{directory}/{file}")
    names = set() if isinstance(contents, Gap) else set(contents.data.split())
    if b"cpu" in names:
        names.add(b"cpuacct")
    return tuple(c for c in Controller if c.value.encode() in names)


def _mounted(roots: Roots, magic_of: MagicOf) -> dict[Controller, Mount]:
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


def _unified_mounts(directory: str, verdict: VersionVerdict) -> dict[Controller, Mount]:
    """What the kernel lists; a test's plain directory, without such a list, has them all."""
    plain = verdict.is_override() and not os.path.exists(f"{directory}/{_CONTROLLERS_FILE}")
    there = tuple(Controller) if plain else listed_controllers(directory)
    mount = Mount(CgroupVersion.V2, directory)
    return dict.fromkeys(there, mount) if os.path.isdir(directory) else {}
