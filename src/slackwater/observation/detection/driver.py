"""Which driver lays out the kubelet's tree (cgroupfs or systemd), and what points to that tree.

Owns the order of the sources. The environment is an order; then real directories beat guesses;
then the kubelet's files, its process, the look of the cgroup root, and the default. All of them
are asked, also those after the one that decides. As clues to the tree count only orders and the
kubelet's own configuration, never a guess.
"""

import os
from collections.abc import Mapping

from slackwater.bounded_read import read_start
from slackwater.model.cgroup import CgroupMounts, CgroupVersion, Driver
from slackwater.model.gap import Gap
from slackwater.observation.cgroups.paths import layout_of
from slackwater.observation.detection.findings import (
    DRIVER_VARIABLE,
    DriverVerdict,
    EnvironmentValueError,
    Finding,
)
from slackwater.observation.detection.kubelet import (
    DRIVER,
    PROCESS_SOURCE,
    SeveralKubelets,
    config_files,
    file_findings,
    find_kubelet,
    kubelet_cgroup_root,
    named_cgroup_root,
    process_finding,
    process_name,
)
from slackwater.observation.detection.kubepods import Clues, trees_below
from slackwater.observation.host import Roots

TREE_SOURCE = "cgroup tree"
GUESS_SOURCE = "cgroup root"
DEFAULT_SOURCE = "default"
_SYSTEMD, _CGROUPFS = Driver.SYSTEMD.value, Driver.CGROUPFS.value


def detect_driver(
    roots: Roots, environ: Mapping[str, str], mounts: CgroupMounts | None
) -> DriverVerdict:
    """The first source that answers decides.

    Raises EnvironmentValueError for a CGROUP_DRIVER that is not a driver.
    """
    environment = _environment_finding(environ)
    tree = _tree_finding(roots, mounts)
    told = (*file_findings(roots, DRIVER), process_finding(roots, DRIVER))
    default = Finding(DEFAULT_SOURCE, _CGROUPFS, "what the kubelet does when it is not told")
    findings = (environment, tree, *told, _guess(roots), default)
    winner = next((finding for finding in findings if finding.found), default)
    return DriverVerdict(
        Driver(winner.found), winner.source, findings, _conflict(tree, (environment, *told))
    )


def _environment_finding(environ: Mapping[str, str]) -> Finding:
    value = environ.get(DRIVER_VARIABLE, "")
    if not value:
        return Finding(DRIVER_VARIABLE, None, "not set")
    if value not in (_SYSTEMD, _CGROUPFS):
        raise EnvironmentValueError(DRIVER_VARIABLE, value, (_SYSTEMD, _CGROUPFS))
    return Finding(DRIVER_VARIABLE, value, "set in the environment")


def _tree_finding(roots: Roots, mounts: CgroupMounts | None) -> Finding:
    """A tree of each driver, left over from a switch, decides nothing."""
    mount = mounts.identity() if mounts else Gap("the mounts are unknown")
    tops = (roots.cgroup, f"{roots.cgroup}/cpu") if isinstance(mount, Gap) else (mount.directory,)
    found: dict[str, str] = {}
    for top in tops:
        for path in trees_below(top):
            layout = layout_of(path)
            if layout:
                found.setdefault(layout.driver.value, f"{top}/{path}")
    if len(found) == 1:
        [(driver, path)] = found.items()
        return Finding(TREE_SOURCE, driver, f"{path} exists")
    both = " and ".join(sorted(found.values()))
    note = f"undecided: {both} exist" if both else f"no kubepods tree below {tops[0]}"
    return Finding(TREE_SOURCE, None, note)


def _guess(roots: Roots) -> Finding:
    """Volcano's guesses in its order, with one repair.

    A hierarchy called systemd says nothing by itself: runtimes and minimal systems mount one
    without systemd. It counts only where process 1 is systemd.
    """
    top = roots.cgroup
    named, init = os.path.isdir(f"{top}/systemd"), process_name(roots, 1)
    who = "unknown" if isinstance(init, Gap) else repr(init)
    aside = f"; {top}/systemd does not count, as process 1 is {who}" if named else ""
    if os.path.isdir(f"{top}/system.slice"):
        return Finding(GUESS_SOURCE, _SYSTEMD, f"{top}/system.slice exists")
    if named and init == "systemd":
        return Finding(GUESS_SOURCE, _SYSTEMD, f"{top}/systemd exists, and process 1 is systemd")
    for name in ("cpu", "cgroup.controllers"):
        if os.path.exists(f"{top}/{name}"):
            return Finding(GUESS_SOURCE, _CGROUPFS, f"{top}/{name} exists{aside}")
    if os.path.isdir(f"{top}/unified/system.slice"):
        return Finding(GUESS_SOURCE, _SYSTEMD, f"{top}/unified/system.slice exists{aside}")
    if os.path.isdir(f"{top}/unified"):
        return Finding(GUESS_SOURCE, _CGROUPFS, f"{top}/unified exists{aside}")
    return Finding(GUESS_SOURCE, None, f"{top} tells nothing{aside}")


def _conflict(tree: Finding, told: tuple[Finding, ...]) -> str | None:
    others = [finding for finding in told if finding.found not in (None, tree.found)]
    if not tree.found or not others:
        return None
    sources = " and ".join(finding.source for finding in others)
    says = "says" if len(others) == 1 else "say"
    return (
        f"{sources} {says} {others[0].found}, but the tree on disk is {tree.found}'s ({tree.note})"
    )


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
