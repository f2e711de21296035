"""Builds an agent for this machine: detection, tree, ledger, writers. The only place that does."""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from slackwater.agent.program import (
    NO_OVERRIDES,
    Agent,
    AgentDependencies,
    CommandLineOverrides,
    ObjectSource,
)
from slackwater.agent.shared_state import SharedState, no_link
from slackwater.agent.voice import Tell
from slackwater.agent.waiting import Waiter
from slackwater.bounded_read import read_start
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.executor import DryRun, Executor
from slackwater.execution.folder_lock import Taken
from slackwater.execution.ledger import Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupMounts, Driver
from slackwater.model.gap import Gap
from slackwater.model.plan import Result
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.cgroups.files import raise_descriptor_limit
from slackwater.observation.cgroups.tree import CgroupTree, Depth
from slackwater.observation.detection import (
    DriverVerdict,
    Kubepods,
    clues_of,
    detect_driver,
    detect_version,
    find_kubepods,
    find_mounts,
)
from slackwater.observation.host import NodeUsageMeter, Roots, read_machine
from slackwater.observation.objects.folder import Folder
from slackwater.observation.pressure import PressureAlarms, Watched
from slackwater.observation.survey import Surveyor, TreeGuard
from slackwater.record.journal import Entry, Journal, told
from slackwater.record.metrics import Tally
from slackwater.settings.document import DEFAULTS

if TYPE_CHECKING:
    from slackwater.agent.cluster_side import ClusterJob, ClusterSide

_Found = TypeVar("_Found")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Seconds to wait for systemd's first answer, one attempt after the other.
_PATIENCE = (2.0, 5.0, 15.0)


class Place(msgspec.Struct, frozen=True):
    """Where the agent works: the host's roots, its tree (empty: found), and its own folder."""

    roots: Roots
    kubepods: str
    state: str


class Job(msgspec.Struct, frozen=True):
    """What the agent is to do: for which objects, a folder's or a cluster's, by which orders, and
    whether it may write."""

    folder: str
    orders: CommandLineOverrides = NO_OVERRIDES
    dry_run: bool = False
    cluster: "ClusterJob | None" = None


class Built(msgspec.Struct, frozen=True):
    """An agent, what it shows to others, its sleep, and its side towards a cluster."""

    agent: Agent
    board: SharedState
    waiter: Waiter
    cluster: "ClusterSide | None" = None


class CannotStart(Exception):  # noqa: N818  it reads as a sentence where it is caught
    """One sentence about what is missing."""


class Occupied(CannotStart):
    """Another agent holds the ledger."""


def build_agent(place: Place, job: Job, environ: Mapping[str, str], tell: Tell) -> Built:
    raise_descriptor_limit()
    mounts, driver = _mounts(place.roots, environ)
    clues = clues_of(place.roots, mounts, driver)
    tree = _need(find_kubepods(mounts, clues, place.kubepods))
    tell(Entry(0, now(), "kubelet's tree", because=_why(tree, place.kubepods)))
    cpus = read_machine(place.roots).cpus
    surveyor = Surveyor(
        CgroupTree(mounts, tree.path, Depth.TIERS), NodeUsageMeter(mounts, place.roots)
    )
    journal = Journal(DEFAULTS.agent.kept_ticks)

    def watched() -> Watched:
        latest = journal.latest
        stall = board.last_round.settings.pressure_stall
        return Watched(surveyor.protected(), stall, bool(latest and latest.outcomes))

    if job.dry_run and os.path.exists(f"{place.state}/ledger.jsonl"):
        because = f"there is a ledger in {place.state}: what its agent set is taken for the node's"
        tell(Entry(0, now(), "dry run", because=because))
    waiter = Waiter(PressureAlarms(mounts, watched, now))
    cpu = mounts.identity()
    version = cpu if isinstance(cpu, Gap) else cpu.version
    cluster = _cluster(job)
    link = cluster.link if cluster else no_link
    board = SharedState(journal, Tally(), waiter.wake, version, link)
    orders = job.orders
    source: ObjectSource = (
        cluster.objects if cluster else Folder(job.folder, orders.node, orders.host)
    )
    parts = AgentDependencies(
        source=source,
        sight=surveyor if cluster is None else _guarded(surveyor, mounts, tree),
        hands=DryRun(_PAGE) if job.dry_run else build_executor(place, mounts, tree.driver, tell),
        board=board,
        machine_cpu=cpus if isinstance(cpus, Gap) else MilliCpu(len(cpus) * 1000),
        clock=now,
        origin="cluster" if cluster else "folder",
    )
    return Built(Agent(parts, tell, job.orders), board, waiter, cluster)


def _guarded(surveyor: Surveyor, mounts: CgroupMounts, tree: Kubepods) -> TreeGuard:
    """Only a cluster knows the node's pods; a folder may hold any."""
    return TreeGuard(surveyor, _need(mounts.identity()).directory, tree.path)


def _why(tree: Kubepods, asked: str) -> str:
    if asked:
        return f"{tree.path} is taken: --kubepods names it"
    if tree.because:
        return f"{tree.path} is taken, one of several that look like it: {tree.because}"
    return f"{tree.path} is taken: no other one looks like it"


def _cluster(job: Job) -> "ClusterSide | None":
    """Imported here: an agent without a cluster needs none of it."""
    if job.cluster is None:
        return None
    from slackwater.agent.cluster_side import open_cluster

    return open_cluster(job.cluster, now)


def build_executor(place: Place, mounts: CgroupMounts, driver: Driver, tell: Tell) -> Executor:
    """The writers and the ledger; `release` needs no more than this."""
    files = CgroupWriter(mounts, _PAGE, now)
    units = None if driver is Driver.CGROUPFS else _open_units(place, files)
    if isinstance(units, Gap):
        because = f"{units.reason}; its slices are written as files, which it resets now and then"
        tell(Entry(0, now(), "systemd", because=because))
    usable = None if isinstance(units, Gap) else units
    ledger = Ledger.open(place.state, _boot_id(place.roots))
    if isinstance(ledger, Taken):
        raise Occupied(ledger.reason)
    ledger = _need(ledger)
    return Executor(ledger, files, usable, now)


def _open_units(place: Place, files: CgroupWriter) -> UnitWriter | Gap:
    """A systemd that is busy, with a reload say, answers late: it is asked again, because the
    files that stand in for it are for nodes where it cannot be reached at all."""
    path = _socket(place)
    found: UnitWriter | Gap = Gap("not asked yet")
    for patience in _PATIENCE:
        found = UnitWriter.open(files, now, path, first_timeout=patience)
        if isinstance(found, UnitWriter) or not os.path.exists(path):
            break
    return found


def _socket(place: Place) -> str:
    return f"{place.roots.host}/run/systemd/private"


def release_all(place: Place, environ: Mapping[str, str]) -> tuple[list[Entry], int]:
    """Everything back without an agent: what was done, and how many knobs are left."""
    mounts, verdict = _mounts(place.roots, environ)
    # What went through systemd's units goes back through them, whatever the tree looks like now;
    # where none did, it does not matter whether systemd answers.
    driver = Driver.SYSTEMD if os.path.exists(_socket(place)) else verdict.driver
    entries: list[Entry] = []
    told_of_systemd = entries.append if verdict.driver is Driver.SYSTEMD else _unsaid
    outcomes = build_executor(place, mounts, driver, told_of_systemd).release()
    left = sum(o.result in (Result.REFUSED, Result.UNSUPPORTED) for o in outcomes)
    at = now()
    return [*entries, *(told(outcome, 0, at, "released") for outcome in outcomes)], left


def _unsaid(_entry: Entry) -> None:
    return None


def now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


def _need(found: _Found | Gap) -> _Found:
    if isinstance(found, Gap):
        raise CannotStart(found.reason)
    return found


def _mounts(roots: Roots, environ: Mapping[str, str]) -> tuple[CgroupMounts, DriverVerdict]:
    version = detect_version(roots, environ)
    if isinstance(version, Gap):
        raise CannotStart(version.reason)
    mounts = _need(find_mounts(roots, version))
    return mounts, detect_driver(roots, environ, mounts)


def _boot_id(roots: Roots) -> str:
    """Which boot this is: a ledger of another one is void."""
    contents = _need(read_start(f"{roots.proc}/sys/kernel/random/boot_id"))
    return contents.data.decode("ascii", "replace").strip()
