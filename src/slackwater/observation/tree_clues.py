"""What points to the kubelet's tree: what the kubelet was told, and where this process is.

Owns which sources count: an order or the kubelet's own configuration, never a guess. Reads only.
"""

from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Driver
from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import read_start
from slackwater.observation.kubelet_sources import (
    CONFIG_FILES,
    PROCESS_SOURCE,
    kubelet_cgroup_root,
)
from slackwater.observation.kubepods import Clues
from slackwater.observation.roots import Roots
from slackwater.observation.verdicts import DRIVER_VARIABLE, DriverVerdict

_SOURCES = frozenset({DRIVER_VARIABLE, *CONFIG_FILES, PROCESS_SOURCE})


def clues_of(roots: Roots, mounts: CgroupMounts, verdict: DriverVerdict) -> Clues:
    return Clues(_told_driver(verdict), kubelet_cgroup_root(roots), own_cgroup(roots, mounts))


def own_cgroup(roots: Roots, mounts: CgroupMounts) -> str:
    """Where this process is in the hierarchy of the cpu controller, "" where that is not known.

    With a cgroup namespace of its own a process sees itself at the top, or above it.
    """
    mount = mounts.identity()
    contents = read_start(f"{roots.proc}/self/cgroup")
    if isinstance(mount, Gap) or isinstance(contents, Gap):
        return ""
    for line in contents.data.decode("utf-8", "replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        unified = number == "0" and not controllers
        if unified if mount.version is CgroupVersion.V2 else "cpu" in controllers.split(","):
            return path.strip("/")
    return ""


def _told_driver(verdict: DriverVerdict) -> Driver | None:
    return verdict.driver if verdict.source in _SOURCES else None
