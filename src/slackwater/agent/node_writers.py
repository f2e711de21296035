"""Opens what writes to a node and the ledger of what was written: all that a release needs,
with or without an agent."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from slackwater.bounded_read import read_start
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.executor import Executor
from slackwater.execution.folder_lock import Taken
from slackwater.execution.ledger import Ledger
from slackwater.execution.memory_file import MemoryFiles
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupMounts, Driver
from slackwater.model.gap import Gap
from slackwater.model.plan import UNIT_ROUTE, Result
from slackwater.observation.detection import (
    DriverVerdict,
    detect_driver,
    detect_version,
    find_mounts,
)
from slackwater.observation.host import Roots
from slackwater.policies.catalog import POLICIES
from slackwater.record.journal import JournalEntry, outcome_entry
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.loop import monotonic_now

_Found = TypeVar("_Found")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
#: Seconds to wait for systemd at the start. The loop asks again.
_FIRST_SYSTEMD_SECONDS = 5.0
#: Seconds within which a release that failed is begun again; the last attempt has to end within the
#: 30 s of a pod's grace period.
_RELEASE_SECONDS = 20.0
_RELEASE_PAUSE_SECONDS = 1.0


class CannotStartError(Exception):
    """Something is missing on this machine; str() is one sentence."""


class LedgerTakenError(CannotStartError):
    """Another agent holds the ledger."""


class NodePaths(msgspec.Struct, frozen=True):
    """Where the agent works: the host's roots, the kubelet's tree (empty: detected), its folder for
    what lives as long as the boot, and the one for what outlives it (empty: the same).
    `nri_socket` is the container runtime's (empty: below the host's root)."""

    roots: Roots
    kubepods: str
    state: str
    lasting: str = ""
    nri_socket: str = ""

    def lasting_folder(self) -> str:
        return self.lasting or self.state


def release_repeatedly(
    release: Callable[[], int],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Until nothing is left, or its time is over; how much is left. Nobody comes after this that
    would try again: one late answer of systemd must not leave a node throttled until its reboot."""
    over = clock() + _RELEASE_SECONDS
    left = release()
    while left and clock() < over:
        sleep(_RELEASE_PAUSE_SECONDS)
        left = release()
    return left


def build_executor(
    paths: NodePaths, mounts: CgroupMounts, driver: Driver, write: EntrySink
) -> Executor:
    """The writers and the ledger: all that `release` needs."""
    files = CgroupWriter(mounts, PAGE_SIZE, monotonic_now)
    boot, init, before = boot_id(paths.roots), start_of_init(paths.roots), paths.lasting
    ledger = Ledger.open(paths.state, boot, init, before)
    if isinstance(ledger, Taken):
        raise LedgerTakenError(ledger.reason)
    ledger = need(ledger)
    through_units = any(entry.route.startswith(UNIT_ROUTE) for entry in ledger.entries)
    if driver is Driver.CGROUPFS and not through_units:
        return Executor(ledger, files, None, monotonic_now)
    return Executor(ledger, files, _open_units(paths, files, write), monotonic_now)


def _open_units(paths: NodePaths, files: CgroupWriter, write: EntrySink) -> UnitWriter:
    """Files are never written instead: systemd resets them, and what it has set would be taken for
    their baseline. One that is busy or away, as in an upgrade, is asked again with each change."""
    units = UnitWriter(files, monotonic_now, _socket(paths), _FIRST_SYSTEMD_SECONDS)
    silent = units.ask()
    if silent is not None:
        because = f"{silent.reason}; its slices stay as they are until it answers"
        write(JournalEntry(0, monotonic_now(), "systemd", because=because))
    units.be_quick()
    return units


def _socket(paths: NodePaths) -> str:
    return f"{paths.roots.host}/run/systemd/private"


def release_all(paths: NodePaths, environ: Mapping[str, str]) -> tuple[list[JournalEntry], int]:
    """Restores everything without an agent: what was done, and how many knobs are left."""
    mounts, verdict = detect_cgroups(paths.roots, environ)
    # What went through systemd's units goes back through them, whatever the tree looks like now;
    # where none did, it does not matter whether systemd answers.
    driver = Driver.SYSTEMD if os.path.exists(_socket(paths)) else verdict.driver
    entries: list[JournalEntry] = []
    write = entries.append if verdict.driver is Driver.SYSTEMD else _discard
    executor = build_executor(paths, mounts, driver, write)
    if executor.ledger.unusable is not None:
        raise CannotStartError(executor.ledger.unusable.reason)
    executor.be_patient()

    def release() -> int:
        outcomes = executor.release()
        at = monotonic_now()
        entries.extend(outcome_entry(outcome, 0, at, "released") for outcome in outcomes)
        return sum(o.result in (Result.REFUSED, Result.UNSUPPORTED) for o in outcomes)

    left = release_repeatedly(release)
    executor.ledger.close()
    kept = MemoryFiles(paths.lasting_folder(), POLICIES)
    kept.load()
    kept.forget_what_stands()
    return entries, left


def _discard(_entry: JournalEntry) -> None:
    return None


def need(found: _Found | Gap) -> _Found:
    if isinstance(found, Gap):
        raise CannotStartError(found.reason)
    return found


def detect_cgroups(roots: Roots, environ: Mapping[str, str]) -> tuple[CgroupMounts, DriverVerdict]:
    version = detect_version(roots, environ)
    if isinstance(version, Gap):
        raise CannotStartError(version.reason)
    mounts = need(find_mounts(roots, version))
    return mounts, detect_driver(roots, environ, mounts)


def boot_id(roots: Roots) -> str:
    """Identifies the boot: a ledger of another one is void."""
    contents = need(read_start(f"{roots.proc}/sys/kernel/random/boot_id"))
    return contents.data.decode("ascii", "replace").strip()


def start_of_init(roots: Roots) -> str:
    """When process 1 was started, in the kernel's clock ticks since its boot: the 22nd field of
    its stat (proc_pid_stat(5)). Empty where it cannot be read."""
    contents = read_start(f"{roots.proc}/1/stat")
    if isinstance(contents, Gap):
        return ""
    fields = contents.data.rpartition(b")")[2].split()
    return fields[19].decode("ascii", "replace") if len(fields) > 19 else ""
