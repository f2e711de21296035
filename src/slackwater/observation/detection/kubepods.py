"""Where the kubelet's tree is: the directories that stand on the disk.

Owns the search: what was asked for, else the one tree called kubepods near the top of the
hierarchy. Of several, clues choose; where they do not, nothing is taken: the wrong tree would be
throttled, and the right one run free. Reads names only.
"""

import os
from collections.abc import Callable, Iterator

import msgspec

from slackwater.model.cgroup import CgroupMounts, Driver
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.paths import (
    KubepodsLayout,
    NotACgroupRoot,
    layout_of,
    node_path,
    pod_uid,
    tier_of,
)

#: kind's tree is at kubelet.slice/kubelet-kubepods.slice; nobody's is deeper by itself.
DEEPEST = 2
#: So many trees are named in a sentence.
SHOWN = 5
#: Why a tree is left, and which trees are.
_Choice = tuple[str, Callable[[str], bool]]


class Clues(msgspec.Struct, frozen=True):
    """What points to the kubelet's tree before anybody looks. None: nobody said so, "" is the top.
    `own` is the cgroup of this process, relative to the mount; "" where that is not known. What is
    `ordered` was named by a person (a Gap: named, but not to be read). Where several kubelets run,
    pods in a tree do not tell that it is this node's."""

    driver: Driver | None = None
    cgroup_root: str | None = None
    own: str = ""
    ordered_driver: Driver | None = None
    ordered_root: str | Gap | None = None
    several_kubelets: bool = False


class UnusableOrder(Gap, frozen=True):
    """What a person named leads to no tree; nobody else's word replaces it."""


class Kubepods(msgspec.Struct, frozen=True):
    """The root of the kubelet's tree. `path` is relative to the mount; `because` is why this one,
    where there are several."""

    path: str
    driver: Driver
    cgroup_root: str = ""
    because: str = ""

    def layout(self) -> KubepodsLayout:
        return KubepodsLayout(self.driver, self.cgroup_root)


def find_kubepods(mounts: CgroupMounts, clues: Clues, override: str = "") -> Kubepods | Gap:
    """The tree that was asked for and no other; without an override, the only one that can be."""
    mount = mounts.identity()
    if isinstance(mount, Gap):
        return mount
    if override:
        return _overridden(mount.directory, clues, override)
    if isinstance(clues.ordered_root, Gap):
        return UnusableOrder(clues.ordered_root.reason)
    told = [_there(mount.directory, root) for root in (clues.ordered_root, clues.cgroup_root)]
    trees = sorted({*trees_below(mount.directory), *told[0], *told[1]})
    if not trees:
        return Gap(f"there is no kubepods or kubepods.slice below {mount.directory}")
    if clues.ordered_root is not None and not told[0] and len(trees) > 1:
        return UnusableOrder(
            f"the kubelet's configuration that was named has the cgroup root "
            f"{clues.ordered_root[:80]!r}, and of several trees ({', '.join(trees[:SHOWN])}) none "
            "is there: name the right one with --kubepods (in the chart agent.paths.kubepods)"
        )
    return _chosen(trees, _choices(mount.directory, told[0], told[1], clues), clues)


def _chosen(trees: list[str], choices: tuple[_Choice, ...], clues: Clues) -> Kubepods | Gap:
    """Clue after clue leaves out trees, never the last one. The first that leaves one decides."""
    left, reason = trees, ""
    for because, fits in choices:
        if len(left) == 1:
            break
        left, reason = list(filter(fits, left)) or left, because
    if len(left) > 1:
        return Gap(
            f"several trees look like the kubelet's ({', '.join(left[:SHOWN])}), and nothing tells "
            "which one is: name it with --kubepods (in the chart agent.paths.kubepods), or the "
            "kubelet's configuration with --kubelet-config (agent.kubeletConfig)"
        )
    found = _kubepods(left[0], clues)
    return found if len(trees) == 1 else msgspec.structs.replace(found, because=reason)


def _choices(top: str, ordered: list[str], told: list[str], clues: Clues) -> tuple[_Choice, ...]:
    """What a person named, then where we are, which nobody can feign; then what was found."""
    return (
        ("the kubelet's configuration that was named says so", ordered.__contains__),
        _of_driver(clues.ordered_driver, clues),
        ("this process is in it", lambda path: clues.own.startswith(f"{path}/")),
        ("the kubelet's cgroup root says so", told.__contains__),
        _of_driver(clues.driver, clues),
        (
            "no other one has pods",
            lambda path: not clues.several_kubelets and bool(pod_uids_in(f"{top}/{path}")),
        ),
    )


def _of_driver(driver: Driver | None, clues: Clues) -> _Choice:
    because = f"the cgroup driver is {driver.value}" if driver else ""
    return because, lambda path: _kubepods(path, clues).driver is driver


def pod_uids_in(tree: str) -> frozenset[str]:
    """Of the pods in a tree, by its directory. Guaranteed pods sit beside the tiers."""
    names = _folders(tree)
    below = (_folders(f"{tree}/{name}") for name in names if tier_of(name))
    found = (pod_uid(name) for group in (names, *below) for name in group)
    return frozenset(uid for uid in found if uid)


def trees_below(directory: str) -> list[str]:
    """Every kubepods tree near the top of a hierarchy, relative to it."""
    return sorted(_walk(directory, "", DEEPEST))


def _walk(directory: str, above: str, deepest: int) -> Iterator[str]:
    for name in _folders(directory):
        path = f"{above}{name}"
        if layout_of(name):
            yield path
        elif deepest > 1:
            yield from _walk(f"{directory}/{name}", f"{path}/", deepest - 1)


def _folders(directory: str) -> list[str]:
    """Symbolic links are left out: no loops, and cgroup file systems have none."""
    try:
        with os.scandir(directory) as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:  # unreadable, or gone since it was listed
        return []
    # A kubelet's names are; others would break the JSON that they are shown in.
    return [name for name in folders if name.isprintable()]


def _there(top: str, cgroup_root: str | None) -> list[str]:
    """The trees at a kubelet's cgroup root, by each driver that it can have."""
    if cgroup_root is None:
        return []
    paths: list[str] = []
    for driver in Driver:
        try:
            paths.append(node_path(KubepodsLayout(driver, cgroup_root)))
        except NotACgroupRoot:
            continue
    return [path for path in paths if os.path.isdir(f"{top}/{path}")]


def _kubepods(path: str, clues: Clues) -> Kubepods:
    """A tree of another name (an override may have one) is laid out as its suffix says."""
    layout = layout_of(path)
    if layout:
        return Kubepods(path, layout.driver, layout.cgroup_root)
    driver = Driver.SYSTEMD if path.endswith(".slice") else Driver.CGROUPFS
    ordered = clues.ordered_root
    root = clues.cgroup_root if ordered is None or isinstance(ordered, Gap) else ordered
    return Kubepods(path, driver, root or "")


def _overridden(mount: str, clues: Clues, override: str) -> Kubepods | Gap:
    path = override.removeprefix(f"{mount}/").strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")):
        return Gap(f"{override[:80]!r} is not a path inside {mount}")
    if not os.path.isdir(f"{mount}/{path}"):
        return Gap(f"there is no directory {path[:80]!r} below {mount}")
    return _kubepods(path, clues)
