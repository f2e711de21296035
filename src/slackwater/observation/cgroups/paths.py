"""Where the kubelet and the runtimes put a pod's cgroups, and back from a name to what it is.

Owns the naming rules of both drivers, as pure strings: nothing here looks at a disk. Refuses
every uid, container id and cgroup root that is not one, so that no foreign text becomes a path.
Paths are relative to the hierarchy's mount, without slashes at either end.

Sources: ToCgroupfs and ToSystemd in pkg/kubelet/cm/cgroup_manager_linux.go of Kubernetes,
ExpandSlice of runc, internal/config/cgmgr of CRI-O, pkg/cri of containerd.
"""

import re

import msgspec

from slackwater.model.cgroup import Driver, Tier

KUBEPODS = "kubepods"
#: How much of a refused value is quoted back.
QUOTED = 80

# A uid is a uuid, 32 hex digits (static pods), or what a standalone user chose: a DNS label,
# which covers the other two. No "_" in it, so that systemd's "_" always stands for a "-".
_UID = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_CONTAINER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
# The characters of a systemd unit name; the first one excludes "..", "." and hidden names.
_ROOT_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,127}")

_KUBEPODS_SLICE = re.compile(r"((?:[A-Za-z0-9_.:@]+-)*)kubepods\.slice")
_TIER_SLICE = re.compile(r"(?:[A-Za-z0-9_.:@]+-)*kubepods-(besteffort|burstable)\.slice")
_POD_DIRECTORY = re.compile(rf"pod({_UID.pattern})")
_POD_SLICE = re.compile(
    r"(?:[A-Za-z0-9_.:@]+-)*kubepods-(?:(?:besteffort|burstable)-)?"
    r"pod([a-z0-9](?:[_a-z0-9]{0,61}[a-z0-9])?)\.slice"
)
# Only whole ids: crio-conmon-<id>.scope, crio-infra-<id>.scope and the like are not containers.
_CONTAINER_DIRECTORY = re.compile(
    r"(?:(?:cri-containerd|crio|docker)-([0-9a-f]{64})\.scope|(?:crio-)?([0-9a-f]{64}))"
)

_SCOPE_PREFIXES = {"containerd": "cri-containerd", "docker": "docker", "cri-o": "crio"}
_TIERS = {tier.value: tier for tier in (Tier.BURSTABLE, Tier.BESTEFFORT)}


class NotAnId(ValueError):  # noqa: N818  it reads as a sentence where it is caught
    """A pod uid or container id that must not become a path; str() is one sentence."""


class NotACgroupRoot(ValueError):  # noqa: N818
    """A kubelet's cgroup root that must not become a path; str() is one sentence."""


class KubepodsLayout(msgspec.Struct, frozen=True):
    """How one kubelet lays out its tree. `cgroup_root` is its cgroupRoot, "" for none."""

    driver: Driver
    cgroup_root: str = ""


def node_path(layout: KubepodsLayout) -> str:
    """The root of the kubelet's tree."""
    return _place(layout, (KUBEPODS,))


def tier_path(layout: KubepodsLayout, tier: Tier) -> str:
    """A QoS class's cgroup; guaranteed pods sit directly below the root of the tree."""
    return _place(layout, (KUBEPODS, *_tier_parts(tier)))


def pod_path(layout: KubepodsLayout, tier: Tier, uid: str) -> str:
    if not _UID.fullmatch(uid):
        raise NotAnId(
            f"{uid[:QUOTED]!r} is not a pod uid (at most 63 lower-case letters, digits and dashes)"
        )
    return _place(layout, (KUBEPODS, *_tier_parts(tier), f"pod{uid}"))


def container_directory(driver: Driver, container_id: str) -> str:
    """The directory below the pod's for a status.containerID, "runtime://id" or a bare id."""
    runtime, separator, rest = container_id.partition("://")
    name = rest if separator else container_id
    if not _CONTAINER_ID.fullmatch(name):
        raise NotAnId(
            f"{container_id[:QUOTED]!r} is not a container id "
            "(at most 128 letters, digits, dashes and underscores)"
        )
    prefix = _SCOPE_PREFIXES.get(runtime) if separator else None
    if driver is Driver.SYSTEMD:
        return f"{prefix}-{name}.scope" if prefix else name
    # CRI-O alone keeps its prefix without systemd.
    return f"{prefix}-{name}" if prefix == "crio" else name


def pod_uid(name: str) -> str | None:
    """The uid of the pod whose directory has this name."""
    if name.endswith(".slice"):
        found = _POD_SLICE.fullmatch(name)
        return found[1].replace("_", "-") if found else None
    found = _POD_DIRECTORY.fullmatch(name)
    return found[1] if found else None


def container_id(name: str) -> str | None:
    """The id of the container whose directory has this name."""
    found = _CONTAINER_DIRECTORY.fullmatch(name)
    return (found[1] or found[2]) if found else None


def tier_of(name: str) -> Tier | None:
    """The tier whose directory has this name; None for the root of the tree and all others."""
    if not name.endswith(".slice"):
        return _TIERS.get(name)
    found = _TIER_SLICE.fullmatch(name)
    return _TIERS[found[1]] if found else None


def layout_of(path: str) -> KubepodsLayout | None:
    """The layout whose node_path this is, told by its last part; None for any other name.

    A slice's name tells the whole cgroup root; a plain directory's root is what is above it.
    """
    above, _, name = path.rpartition("/")
    if name == KUBEPODS:
        return KubepodsLayout(Driver.CGROUPFS, above)
    found = _KUBEPODS_SLICE.fullmatch(name)
    if not found:
        return None
    root = found[1].removesuffix("-")
    nested = "-" in root or root.endswith(".slice")
    return KubepodsLayout(Driver.SYSTEMD, f"{root}.slice" if nested else root)


def _tier_parts(tier: Tier) -> tuple[str, ...]:
    return (tier.value,) if tier in _TIERS.values() else ()


def _place(layout: KubepodsLayout, below: tuple[str, ...]) -> str:
    parts = (*_root_parts(layout), *below)
    if layout.driver is Driver.CGROUPFS:
        return "/".join(parts)
    names = [part.replace("-", "_") for part in parts]
    # A slice's name holds its ancestors': a-b.slice lives in a.slice.
    return "/".join("-".join(names[:depth]) + ".slice" for depth in range(1, len(names) + 1))


def _root_parts(layout: KubepodsLayout) -> tuple[str, ...]:
    root = layout.cgroup_root.removeprefix("/").removesuffix("/")
    if not root:
        return ()
    if layout.driver is Driver.SYSTEMD and root.endswith(".slice"):
        parts = root.removesuffix(".slice").split("-")
    else:
        # With systemd, too: ParseCgroupfsToCgroupName in the kubelet's container manager.
        parts = root.split("/")
    if not all(_ROOT_PART.fullmatch(part) for part in parts):
        raise NotACgroupRoot(
            f"{layout.cgroup_root[:QUOTED]!r} is not a cgroup root "
            f"for the {layout.driver.value} driver, such as kubelet"
        )
    return tuple(parts)
