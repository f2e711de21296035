"""What points to the kubelet's tree: what the kubelet was told, and where this process is.

Owns which sources count: an order or the kubelet's own configuration, never a guess; and which of
them are orders: they beat whatever is found. Reads only.
"""

from slackwater.model.cgroup import CgroupMounts, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import read_start
from slackwater.observation.kubelet_sources import (
    PROCESS_SOURCE,
    SeveralKubelets,
    config_files,
    find_kubelet,
    kubelet_cgroup_root,
    named_cgroup_root,
)
from slackwater.observation.kubepods import Clues
from slackwater.observation.roots import Roots
from slackwater.observation.verdicts import DRIVER_VARIABLE, DriverVerdict


def clues_of(roots: Roots, mounts: CgroupMounts, verdict: DriverVerdict) -> Clues:
    several = isinstance(find_kubelet(roots), SeveralKubelets)
    ordered = verdict.source in _orders(roots)
    told = verdict.source in (PROCESS_SOURCE, *config_files(roots))
    return Clues(
        driver=verdict.driver if told and not ordered and not several else None,
        cgroup_root=kubelet_cgroup_root(roots),
        own=own_cgroup(roots, mounts),
        ordered_driver=verdict.driver if ordered else None,
        ordered_root=named_cgroup_root(roots),
        several_kubelets=several,
    )


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


def _orders(roots: Roots) -> tuple[str, ...]:
    return (DRIVER_VARIABLE, roots.kubelet_config) if roots.kubelet_config else (DRIVER_VARIABLE,)
