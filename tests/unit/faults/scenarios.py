"""What is tried with each fault: short pieces of work that together reach every call to the system.

A scenario prepares a folder and returns the work, which can be done again and again. The work
answers with what it achieved and what it told; an exception that is not part of its contract is a
failure of the test.
"""

import contextlib
import errno
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.agent.node_writers import CannotStartError, detect_cgroups
from slackwater.execution.eviction_by_signal import SignalCommands
from slackwater.execution.ledger import Ledger
from slackwater.execution.memory_file import MemoryFiles
from slackwater.execution.scratch import scratch_group
from slackwater.http.errors import CredentialsError
from slackwater.kube.access import TokenFile
from slackwater.kube.credentials.discovery import find_access, in_cluster
from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, MEMORY_MAX, QUOTA
from slackwater.model.metric import MetricKey
from slackwater.model.plan import FILE_ROUTE, Change, LedgerEntry, Result
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from slackwater.observation.cgroups.files import whole
from slackwater.observation.cpu_inventory import CpuInventory
from slackwater.observation.detection import clues_of, find_kubepods
from slackwater.observation.detection.mounts import MountPoint, directories_below
from slackwater.observation.host import NodeUsageMeter, Roots
from slackwater.observation.metrics.run_queue import ListedTasks, ScannedTasks, sees_all_tasks
from slackwater.observation.node_topology import TopologyReader
from slackwater.observation.plugins.plugin_host import PluginHost, PluginLimits
from slackwater.observation.pressure import PressureAlarms, Watched
from slackwater.observation.probes.node_file import FileTarget
from slackwater.observation.probes.sources import NodeFile
from slackwater.policies.catalog import POLICIES
from slackwater.runtime.http_exchange import CannotListenError, error_response
from slackwater.runtime.unix_server import UnixServer
from slackwater.runtime.wakeup import InterruptibleWakePipe, WakePipe
from tests.unit.doctor.host_tree import V2, host, kubelet, put
from tests.unit.execution.plain_kernel import PlainKernel
from tests.unit.faults.call_sites import SOURCE
from tests.unit.faults.node_life import NodeLife
from tests.unit.observation.plugins.installed import GOOD, install
from tests.unit.policies.ensurance import batch, seen


class Done(msgspec.Struct, frozen=True):
    """What stands afterwards, and what was told."""

    effect: str
    told: str = ""


Work = Callable[[], Done]
Scenario = Callable[[Path, pytest.MonkeyPatch], Work]


def node(version: CgroupVersion) -> Scenario:
    """Two lives of an agent, and a release by the command, which must put everything back."""

    def prepare(top: Path, patch: pytest.MonkeyPatch) -> Work:
        life = NodeLife(top, patch, version)

        def work() -> Done:
            first, second = life.live(2), life.live(2)
            changed = life.changed()
            told = life.release() + life.release()
            assert life.changed() == {}, told
            return Done(str(changed), f"{first} {second} {told}")

        return work

    return prepare


def ledger(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Notes and clears until the file is written anew; a note that was taken must be there at the
    next start. Then another boot, for which it is set aside."""
    del patch
    (top / "former").mkdir()
    round_number = iter(range(1_000_000))

    def work() -> Done:
        told: list[str] = []
        noted: set[int] = set()
        boots = f"boot {next(round_number)}", f"boot {next(round_number)}"
        for boot in (boots[0], boots[0], boots[1]):
            found = Ledger.open(f"{top}/state", boot, before=f"{top}/former")
            if isinstance(found, Gap):
                return Done("", found.reason)
            try:
                kept = {entry.ref.id for entry in found.entries}
                assert boot == boots[1] or noted <= kept, (noted - kept, found.problems)
                for number in range(100):
                    entry = _entry(number)
                    refused = found.note(entry)
                    if isinstance(refused, Gap):
                        told.append(refused.reason)
                    elif number >= 90:
                        noted.add(number)
                    else:
                        found.clear(entry)
                told += found.problems
            finally:
                found.close()
        return Done(str(sorted(noted)), str(told))

    return work


def former_ledger(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """One in the folder where ledgers used to be is taken over."""
    del patch

    def work() -> Done:
        for name in ("state", "former"):
            shutil.rmtree(top / name, ignore_errors=True)
        before = Ledger.open(f"{top}/former", "boot")
        if isinstance(before, Gap):
            return Done("", before.reason)
        noted = before.note(_entry(1))
        before.close()
        found = Ledger.open(f"{top}/state", "boot", before=f"{top}/former")
        if isinstance(found, Gap):
            return Done("", found.reason)
        kept = [entry.ref.id for entry in found.entries]
        found.close()
        return Done(str(kept), f"{noted} {found.problems}")

    return work


def full_ledger(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """A disk that takes half a line: it is cut off again, and the note refused."""
    write = os.write
    full = [False]

    def write_half(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[: len(data) // 2] if full[0] else data)

    patch.setattr(os, "write", write_half)

    def work() -> Done:
        shutil.rmtree(top / "state", ignore_errors=True)
        found = Ledger.open(f"{top}/state", "boot")
        if isinstance(found, Gap):
            return Done("", found.reason)
        first = found.note(_entry(1))
        full[0] = True
        refused = found.note(_entry(2))
        found.clear(_entry(1)) if first is None else None
        full[0] = False
        assert isinstance(refused, Gap)
        found.close()
        again = Ledger.open(f"{top}/state", "boot")
        if isinstance(again, Gap):
            return Done("", again.reason)
        kept = [entry.ref.id for entry in again.entries]
        again.close()
        assert 2 not in kept
        return Done(str(kept), f"{first} {found.problems} {again.problems}")

    return work


def _entry(number: int) -> LedgerEntry:
    ref = CgroupRef(f"kubepods/pod{number}", number, Level.POD)
    return LedgerEntry(ref, QUOTA.name, FILE_ROUTE, "max 100000", "max 100000", "5000", Micros(1))


def locked_folder(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Another agent holds it."""
    del patch
    holder = Ledger.open(f"{top}/state", "boot")
    assert isinstance(holder, Ledger)

    def work() -> Done:
        found = Ledger.open(f"{top}/state", "boot")
        assert isinstance(found, Gap)
        return Done("", f"{found.reason} {holder.note(_entry(1))}")

    return work


def scratch(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """What doctor tries knobs on; one of a dead process lies there."""
    kernel = PlainKernel(top, CgroupVersion.V2, patch)

    def work() -> Done:
        for leftover in top.glob("slackwater-scratch-*"):
            leftover.rmdir()
        (top / "slackwater-scratch-999999999").mkdir()
        with scratch_group(kernel.mounts) as made:
            told = made.reason if isinstance(made, Gap) else ""
        return Done("made" if not told else "", told)

    return work


def credentials(top: Path, patch: pytest.MonkeyPatch) -> Work:
    del patch
    put(top / "account/token", "abc\n")
    put(top / "account/ca.crt", "x")
    put(top / "account/namespace", "ours")
    put(top / "ca.pem", "authority")
    put(top / "token", "abc\n")
    put(top / ".kube/config", _KUBECONFIG)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    def work() -> Done:
        told: list[str] = []
        found: list[str] = []
        for access in (
            in_cluster(environ, f"{top}/account"),
            find_access({"HOME": str(top)}, "", ""),
        ):
            if isinstance(access, Gap):
                told.append(access.reason)
            else:
                found.append(f"{access.server} {access.namespace} {access.trust}")
        try:
            found.append(str(TokenFile(f"{top}/token").identity()))
        except CredentialsError as error:
            told.append(str(error))
        return Done(str(found).replace(str(top), ""), str(told))

    return work


_KUBECONFIG = """
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority: ../ca.pem}}]
users: [{name: u, user: {tokenFile: ../token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def topology(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Huge pages are told in zones; that they are missing is not worth a word."""
    del patch
    roots = host(top)
    zone = Path(roots.sys) / "devices/system/node/node0"
    put(zone / "meminfo", "Node 0 MemTotal: 8000000 kB\n")
    put(zone / "hugepages/hugepages-2048kB/nr_hugepages", "4\n")

    def work() -> Done:
        found = TopologyReader(roots).read()
        return Done("", found.reason if isinstance(found, Gap) else str(found))

    return work


def tasks(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Of a container with a group below its own, and of a process in /proc."""
    kernel = PlainKernel(top / "cgroup", CgroupVersion.V2, patch) if _made(top / "cgroup") else None
    assert kernel is not None
    ref = kernel.make("kubepods/pod1/x", Level.CONTAINER)
    inner = kernel.folder("kubepods/pod1/x") / "inner"
    put(kernel.folder("kubepods/pod1/x") / "cgroup.threads", "7\n")
    put(inner / "cgroup.threads", "8\n")
    name = "a" * 64
    put(top / "proc/7/cgroup", f"0::/kubepods/pod1/{name}\n")
    (top / "proc/7/task/7").mkdir(parents=True)
    (top / "proc/self").symlink_to(str(os.getpid()))
    container = CgroupRef(f"kubepods/pod1/{name}", 1, Level.CONTAINER)

    def work() -> Done:
        listed = ListedTasks(kernel.mounts).tasks(ref)
        search = ScannedTasks(str(top / "proc"))
        search.refresh()
        found = search.tasks(container)
        return Done("", f"{sees_all_tasks(str(top / 'proc'))} {listed} {found}")

    return work


def usage(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Of the node, on both versions, and its pressure."""
    readers: list[Callable[[], object]] = []
    for version in CgroupVersion:
        place = top / version.value
        _made(place)
        roots = host(place)
        kernel = PlainKernel(Path(roots.cgroup), version, patch)
        kernel.make("kubepods", Level.NODE)
        group = Path(roots.cgroup) / ("cpuacct" if version is CgroupVersion.V1 else "")
        put(group / "cpuacct.usage", "7000\n")
        put(group / "cgroup.sane_behavior", "0\n")
        put(group / "cpu.stat", "usage_usec 7\n")
        put(group / "kubepods/cpu.stat", "usage_usec 7\n")
        put(Path(roots.proc) / "stat", "cpu 1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")

        def read(mounts: CgroupMounts = kernel.mounts, roots: Roots = roots) -> object:
            meter = NodeUsageMeter(mounts, roots)
            try:
                return meter.read(), meter.read(), meter.read_pressure()
            finally:
                meter.close()

        readers.append(read)

    def work() -> Done:
        return Done("", str([read() for read in readers]))

    return work


def alarms(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Triggers of PSI on a group with a quota; one that takes none has none."""
    kernel = PlainKernel(top, CgroupVersion.V2, patch)
    ref = kernel.make("kubepods/pod1")
    folder = kernel.folder("kubepods/pod1")
    put(folder / "cpu.max", "50000 100000\n")
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"

    def work() -> Done:
        put(folder / "cpu.pressure", text)
        put(folder / "cpu.stat", "usage_usec 7\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\n")
        watched = Watched((ref,), Micros(50_000), False)
        found = PressureAlarms(kernel.mounts, lambda: watched, lambda: Micros(1))
        try:
            armed = found.descriptors()
            put(folder / "cpu.pressure", text.replace("total=5", "total=900000"))
            rang = [found.means_something(each) for each in armed]
        finally:
            found.close()
        return Done("", f"{len(armed)} {rang}")

    return work


def metric_file(top: Path, patch: pytest.MonkeyPatch) -> Work:
    del patch
    put(top / "metrics/queue.prom", "queue_length 7\n")

    def work() -> Done:
        source = NodeFile(f"{top}/metrics", "queue.prom")
        found = FileTarget(source, lambda: Micros(1), lambda: 1.0).ask(frozenset({"queue_length"}))
        return Done("", str(found))

    return work


def signals(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """A pod whose one process is asked to end, and then killed; nothing is really signalled."""
    sent: list[str] = []
    kernel = PlainKernel(top, CgroupVersion.V2, patch)
    pod = kernel.make("kubepods/pod1")
    put(kernel.folder("kubepods/pod1") / "inner/cgroup.procs", "77777\n")
    put(kernel.folder("kubepods/pod1") / "cgroup.procs", "")
    put(top / "proc/77777/status", "PPid:\t1\nNSpid:\t77777\t1\n")

    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.ENOSYS, f"{pid} {flags}")

    patch.setattr(os, "pidfd_open", refuse)
    patch.setattr(os, "kill", lambda pid, number: sent.append(f"{pid} {int(number)}"))
    command = Command(
        "uid-1", CommandKind.EVICT, "tenant/job", Because("x", "1", "2"), "p", uid="uid-1",
        grace_seconds=30,
    )  # fmt: skip
    workload = Workload("uid-1", "job", "tenant", Tier.BESTEFFORT, pod)

    def work() -> Done:
        sent.clear()
        now = [0]
        (kernel.folder("kubepods/pod1") / "cgroup.kill").unlink(missing_ok=True)
        commands = SignalCommands(
            kernel.mounts, "kubepods", clock=lambda: Micros(now[0]), proc=f"{top}/proc"
        )
        attempts = []
        for later in (1, 31, 32):
            now[0] = later * 1_000_000
            attempts.append(commands.evict(command, workload).detail)
            if later == 31:
                put(kernel.folder("kubepods/pod1") / "cgroup.kill", "")
        killed = (kernel.folder("kubepods/pod1") / "cgroup.kill").read_text().strip()
        return Done("", f"{attempts} {sent} {killed}")

    return work


def wakeups(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """A pipe that a call wakes, and one that a signal does."""
    del top, patch

    def work() -> Done:
        try:
            pipe = WakePipe()
        except OSError as error:
            return Done("", str(error))
        pipe.wake()
        woken = pipe.wait(0).value
        pipe.request_stop()
        stops = pipe.is_stopping()
        pipe.close()
        handler = signal.getsignal(signal.SIGUSR1)
        try:
            other = InterruptibleWakePipe()
            try:
                other.stop_on(signal.SIGUSR1)
            finally:
                other.close()
        except OSError as error:
            return Done("", str(error))
        finally:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGUSR1, handler)
        assert stops
        return Done("", woken)

    return work


def long_file(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """One of more than a page, as some counters are."""
    del patch
    put(top / "cpu.stat", "x" * 10_000)

    def work() -> Done:
        descriptor = os.open(top / "cpu.stat", os.O_RDONLY)
        try:
            return Done(str(len(whole(descriptor))))
        except OSError as error:  # every caller makes a Gap of it
            return Done("", str(error))
        finally:
            os.close(descriptor)

    return work


def _made(folder: Path) -> bool:
    folder.mkdir()
    return True


def writer(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """CPUs and memory on both versions, also the CPUs of a group that has to have some."""
    kernels = []
    for version in CgroupVersion:
        _made(top / version.value)
        kernel = PlainKernel(top / version.value, version, patch)
        kernels.append((kernel, kernel.make("kubepods/pod1")))

    def work() -> Done:
        told: list[str] = []
        for kernel, ref in kernels:
            files = kernel.writer()
            told.append(str(files.locate(ref.path) == ref.id))
            for knob, value in ((CPUS, CpuSet.parse("0")), (CPUS, CpuSet()), (MEMORY_MAX, 8192)):
                seen = files.read(ref, knob)
                if isinstance(seen, Gap):
                    told.append(seen.reason)
                    continue
                kernel.errors = {"cpuset.cpus": errno.ENOSPC} if value == CpuSet() else {}
                outcome = files.write(Change(ref, knob, seen, value))
                kernel.errors = {}
                told.append(f"{outcome.result.value} {outcome.detail}")
                assert isinstance(outcome.result, Result)
        return Done("", str(told))

    return work


def full_disk(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """Nothing can be added or replaced: what was noted before is still there afterwards."""
    full = [False]

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(*arguments: object, **named: object) -> object:
            if full[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments, **named)

        return refuse

    for name in ("write", "rename", "replace"):
        patch.setattr(os, name, refusing(getattr(os, name)))
    standing = next(policy for policy in POLICIES if policy.keeps_what_stands)
    standing = msgspec.structs.replace(standing, keep=lambda memory, _now: memory)
    memory = {standing.name: {"something": 1}}

    def work() -> Done:
        for old in ("state", "files"):
            shutil.rmtree(top / old, ignore_errors=True)
        (top / "files").mkdir()
        full[0] = False
        found = Ledger.open(f"{top}/state", "boot")
        if isinstance(found, Gap):
            return Done("", found.reason)
        first = [found.note(_entry(number)) for number in range(2)]
        taken = [number for number in range(2) if first[number] is None]
        files = MemoryFiles(str(top / "files"), (standing,))
        full[0] = True
        told = [str(found.note(_entry(number))) for number in (0, 1, 2)]
        told.append(files.save(memory))
        full[0] = False
        told.append(files.save(memory))
        files.forget_what_stands()
        told += found.problems
        found.close()
        again = Ledger.open(f"{top}/state", "boot")
        if isinstance(again, Gap):
            return Done("", again.reason)
        left = [entry.ref.id for entry in again.entries]
        again.close()
        assert set(taken) <= set(left), again.problems
        return Done(str(left), f"{first} {told} {again.problems}")

    return work


def commands_socket(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """A dead agent's socket is replaced."""
    del patch
    path = f"{top}/agent.sock"

    def work() -> Done:
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        told: list[str] = []
        try:
            server = UnixServer(path, lambda _request: error_response(404, ""), told.append)
        except CannotListenError as error:
            return Done("", str(error))
        server.start()
        server.close()
        return Done("", str(told))

    return work


def detection(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """The kubelet's tree by its own cgroup root, and by order; hierarchies by the mount table."""
    roots = host(top)
    kernel = PlainKernel(Path(roots.cgroup), CgroupVersion.V2, patch)
    kernel.make("own/kubepods")
    put(Path(roots.proc) / "sys/kernel/random/boot_id", "this-boot\n")
    config = Path(roots.host) / "var/lib/kubelet/config.yaml"
    put(config, "cgroupRoot: /own\ncgroupDriver: cgroupfs\n")
    state = Path(roots.host) / "var/lib/kubelet/cpu_manager_state"
    put(state, '{"policyName": "none", "defaultCpuSet": "", "checksum": 1}')
    kubelet(roots, "--config", "/var/lib/kubelet/config.yaml")
    deeper = f"{roots.cgroup}/deeper"
    Path(deeper).mkdir()
    table = (MountPoint(deeper, "cgroup2"), MountPoint(f"{deeper}/gone", "cgroup2"))

    def work() -> Done:
        try:
            _, verdict = detect_cgroups(roots, V2)
        except CannotStartError as error:
            return Done("", str(error))
        clues = clues_of(roots, kernel.mounts, verdict)
        found = find_kubepods(kernel.mounts, clues)
        ordered = find_kubepods(kernel.mounts, clues, "own/kubepods")
        pins = CpuInventory(roots).read(Micros(1))
        below = directories_below(roots, table)
        return Done("", f"{verdict} {found} {ordered} {pins} {below}")

    return work


def plugin(top: Path, patch: pytest.MonkeyPatch) -> Work:
    """A plug-in in a process of its own answers, or is off with a reason."""
    install(top / "site", GOOD)
    patch.setenv("PYTHONPATH", f"{top / 'site'}:{SOURCE.parent}")
    snapshot = seen(1, batch(1, priority=5), usages={1: 300})
    own = MetricKey("example.com/queue", "Plugin/queue")

    def work() -> Done:
        found = PluginHost(limits=PluginLimits(280, 280))
        pause = threading.Event()
        try:
            while not any(each.attributes or each.problem for each in found.use(("queue",))):
                pause.wait(0.005)
            found.samples(own, snapshot.at)
            found.offer(snapshot)
            while not (problem := found.use(("queue",))[0].problem):
                if not isinstance(found.samples(own, snapshot.at), Gap):
                    break
                pause.wait(0.005)
            return Done("", f"{problem} {found.samples(own, snapshot.at)}")
        finally:
            found.close()

    return work


SCENARIOS: dict[str, Scenario] = {
    "node v1": node(CgroupVersion.V1),
    "node v2": node(CgroupVersion.V2),
    "ledger": ledger,
    "former ledger": former_ledger,
    "full ledger": full_ledger,
    "locked folder": locked_folder,
    "scratch": scratch,
    "credentials": credentials,
    "topology": topology,
    "tasks": tasks,
    "usage": usage,
    "alarms": alarms,
    "metric file": metric_file,
    "signals": signals,
    "wakeups": wakeups,
    "long file": long_file,
    "writer": writer,
    "full disk": full_disk,
    "commands' socket": commands_socket,
    "detection": detection,
    "plug-in": plugin,
}
