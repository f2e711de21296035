"""Where the kubelet's tree is: the directories that stand on the disk.

Owns the search: what was asked for, what the layout says, then whatever is called kubepods near
the top of the hierarchy. Reads names only.
"""

import os
from collections.abc import Iterator

import msgspec

from slackwater.model.cgroup import CgroupMounts, Driver
from slackwater.model.gap import Gap
from slackwater.observation.cgroup_paths import (
    KubepodsLayout,
    NotACgroupRoot,
    layout_of,
    node_path,
)

#: kind's tree is at kubelet.slice/kubelet-kubepods.slice; nobody's is deeper by itself.
DEEPEST = 2


class Kubepods(msgspec.Struct, frozen=True):
    """The root of the kubelet's tree. `path` is relative to the mount."""

    path: str
    driver: Driver
    cgroup_root: str = ""

    def layout(self) -> KubepodsLayout:
        return KubepodsLayout(self.driver, self.cgroup_root)


def find_kubepods(
    mounts: CgroupMounts, layout_hint: KubepodsLayout, override: str = ""
) -> Kubepods | Gap:
    """The tree that was asked for and no other; without an override, the likeliest one."""
    mount = mounts.identity()
    if isinstance(mount, Gap):
        return mount
    if override:
        return _overridden(mount.directory, layout_hint, override)
    for path in _candidates(layout_hint):
        if os.path.isdir(f"{mount.directory}/{path}"):
            return _kubepods(path, layout_hint)
    found = sorted(trees_below(mount.directory), key=lambda path: _rank(path, layout_hint))
    if found:
        return _kubepods(found[0], layout_hint)
    return Gap(f"there is no kubepods or kubepods.slice below {mount.directory}")


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


def _candidates(hint: KubepodsLayout) -> list[str]:
    """By the hint, then without its cgroup root, then the same for the other driver."""
    drivers = (hint.driver, *(driver for driver in Driver if driver is not hint.driver))
    paths: list[str] = []
    for driver in drivers:
        for root in dict.fromkeys((hint.cgroup_root, "")):
            try:
                paths.append(node_path(KubepodsLayout(driver, root)))
            except NotACgroupRoot:
                continue
    return paths


def _rank(path: str, hint: KubepodsLayout) -> tuple[bool, int, str]:
    return _kubepods(path, hint).driver is not hint.driver, path.count("/"), path


def _kubepods(path: str, hint: KubepodsLayout) -> Kubepods:
    """A tree of another name (an override may have one) is laid out as its suffix says."""
    layout = layout_of(path)
    if layout:
        return Kubepods(path, layout.driver, layout.cgroup_root)
    driver = Driver.SYSTEMD if path.endswith(".slice") else Driver.CGROUPFS
    return Kubepods(path, driver, hint.cgroup_root)


def _overridden(mount: str, hint: KubepodsLayout, override: str) -> Kubepods | Gap:
    path = override.removeprefix(f"{mount}/").strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")):
        return Gap(f"{override[:80]!r} is not a path inside {mount}")
    if not os.path.isdir(f"{mount}/{path}"):
        return Gap(f"there is no directory {path[:80]!r} below {mount}")
    return _kubepods(path, hint)
