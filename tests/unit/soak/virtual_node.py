"""A node in a folder, its agent in a cluster, and their life in virtual time: a pod a second comes
and goes, settings and policies change, the API server comes and goes.

The agent is the real one with all its parts; its informers and writers are stepped by hand instead
of by their threads, so that a virtual second takes what its work takes, and each run is the same.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from slackwater.agent import cluster_connection, endpoint_server
from slackwater.agent.cluster_connection import ClusterConnection, ClusterOptions
from slackwater.agent.dependencies import CommandLineOverrides
from slackwater.agent.endpoint_server import Query
from slackwater.agent.launch import AgentOptions, BuiltAgent, build_agent
from slackwater.agent.node_writers import NodePaths, release_all
from slackwater.contract.resources import CONFIG_MAPS, PODS
from slackwater.execution.executor import Executor
from slackwater.http.endpoint import Identity, Server, Trust
from slackwater.kube import informer as informer_module
from slackwater.kube.access import Access, FixedCredentials
from slackwater.kube.events import EventRateLimit, EventRecorder
from slackwater.kube.informer import Informer
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.units import Micros
from slackwater.observation.host import Roots
from slackwater.record.journal import JournalEntry
from tests.unit.doctor.host_tree import host, kubelet, put
from tests.unit.execution.plain_kernel import V2_FILES, PlainKernel
from tests.unit.soak.soak_objects import (
    CYCLE,
    NAMESPACE,
    NODE,
    TENANT,
    SoakPod,
    policies,
    settings,
    settings_text,
)
from tests.unit.soak.virtual_api import VirtualApi, VirtualClient, node_object

SECOND = 1_000_000
NODE_UID = "00000000-0000-4000-8000-000000000001"
#: What a group of the kernel has beside its knobs.
_COUNTERS = {
    "cpu.stat": "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    "memory.current": "4096\n",
    "memory.stat": "inactive_file 0\n",
    "cgroup.procs": "",
    "cpuset.mems": "0\n",
}
_GROUP = {name: f"{text}\n".encode() for name, text in V2_FILES.items()}
_GROUP |= {name: text.encode() for name, text in _COUNTERS.items()}
_TIERS = ("kubepods", "kubepods/besteffort", "kubepods/burstable")
#: An informer hears a bookmark at least so often.
_BOOKMARK = 30
_SCRAPED_EVERY, _ASKED_EVERY = 15, 60
#: By the second of a cycle. Settings: all policies, another threshold, broken, good again; gone for
#: longer than they are held, and there again.
_SETTINGS_AT: Mapping[int, Callable[[int], str]] = {
    1: settings_text,
    100: partial(settings_text, bestEffortShare={"enabled": True, "threshold": 60}),
    260: lambda _period: "spec: [",
    280: settings_text,
    570: settings_text,
}
_POLICIES = (160, 220)
_WITHOUT_SETTINGS = 520
#: Once shortly, once for longer than its watches may be silent, after which it has forgotten them.
_SERVER_AWAY = {300: True, 350: False, 380: True, 500: False}
_SERVER_FORGETS = 500
_ACCESS = Access(Server("127.0.0.1", 1, "http"), Trust(), FixedCredentials(Identity()))


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """In memory where the machine has such a place: thousands of files come and go each minute."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="slackwater-soak-", dir=place) as folder:
        yield Path(folder)


class VirtualNode:
    """Guards the folders, the objects, the agent, and the time."""

    def __init__(
        self, top: Path, patch: pytest.MonkeyPatch, period: int = 1, most_series: int = 512
    ) -> None:
        """The agent looks every `period` seconds, and remembers so many series of events."""
        self.seconds = 0
        self.period = period
        self._most_series = most_series
        self.api = VirtualApi()
        self.api.evict = self._evicted
        self.roots: Roots = host(top)
        self.paths = NodePaths(self.roots, "", f"{top}/run", f"{top}/lib")
        self._top = top
        self._prepare(patch)
        #: By number, with the second at which each has to go.
        self._living: dict[int, int] = {}
        self.pods = 0
        #: The last lines that the agent told, and how many there were.
        self.lines: deque[JournalEntry] = deque(maxlen=50)
        self.told = 0
        self._looks = self._used = 0
        self._patch_clocks(patch)
        self.baseline = self.knobs()
        self.api.put(*node_object(NODE, NODE_UID))
        self.built = self._build()

    @property
    def at(self) -> Micros:
        """Ten seconds after the start of the machine: zero is no time."""
        return Micros((self.seconds + 10) * SECOND)

    @property
    def cluster(self) -> ClusterConnection:
        assert self.built.cluster is not None
        return self.built.cluster

    @property
    def executor(self) -> Executor:
        assert self.built.executor is not None
        return self.built.executor

    def knobs(self) -> dict[str, str]:
        """What the tiers' knobs read."""
        top = Path(self.roots.cgroup)
        return {
            f"{path}/{name}": (top / path / name).read_text().strip()
            for path in _TIERS
            for name in V2_FILES
        }

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()

    def step(self) -> None:
        """One second."""
        self.seconds += 1
        self._change_objects(self.seconds % CYCLE)
        self._come_and_go()
        if self.seconds % self.period == 0:
            self._look_around()

    def _look_around(self) -> None:
        """One round of the agent, and what its threads do beside it."""
        self._use()
        self._hear()
        self.built.agent.once(self.at)
        self.cluster.report(self.built.shared, self.at)
        self._write()
        self._ask()
        self.kernel.log.clear()

    def end(self) -> None:
        """As the end of the process does it; what was set stays."""
        self.built.agent.close()
        self.executor.ledger.close()
        self.built.pipe.close()
        if self.built.tree_lock is not None:
            os.close(self.built.tree_lock)

    def restart(self) -> None:
        self.end()
        self.built = self._build()

    def release(self) -> int:
        """By the command, once the agent is gone; how much is left."""
        return release_all(self.paths, self._environ)[1]

    # --- the machine

    def _prepare(self, patch: pytest.MonkeyPatch) -> None:
        self._environ = {"SLACKWATER_CGROUP_VERSION": "v2"}
        proc = Path(self.roots.proc)
        (self._top / "run").mkdir()
        put(proc / "sys/kernel/random/boot_id", "this-boot\n")
        put(proc / "stat", "cpu 1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
        put(proc / "meminfo", "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
        put(proc / "loadavg", "0.5 0.4 0.3 1/100 77\n")
        put(proc / "1/stat", "1 (init) S 0 " + "1 " * 17 + "5 6\n")
        kubelet(self.roots)
        state = Path(self.roots.host) / "var/lib/kubelet/cpu_manager_state"
        put(state, '{"policyName": "none", "defaultCpuSet": "", "checksum": 1}')
        self.kernel = PlainKernel(Path(self.roots.cgroup), CgroupVersion.V2, patch)
        for name in ("cpu.pressure", "cpu.stat"):
            put(Path(self.roots.cgroup) / name, _COUNTERS[name])
        for path in _TIERS:
            self._make(path)

    def _patch_clocks(self, patch: pytest.MonkeyPatch) -> None:
        for module in list(sys.modules.values()):
            if module.__name__.startswith("slackwater") and hasattr(module, "monotonic_now"):
                patch.setattr(module, "monotonic_now", lambda: self.at)
        limit = EventRateLimit(max_series=self._most_series)
        recorder = partial(EventRecorder, rate_limit=limit, clock=self._time, wall=self._time)
        patch.setattr(cluster_connection, "EventRecorder", recorder)
        patch.setattr(cluster_connection, "Client", lambda _access, _agent: VirtualClient(self.api))
        patch.setattr(informer_module, "time", SimpleNamespace(monotonic=self._look_at_clock))

    def _time(self) -> float:
        return float(self.seconds + 10)

    def _look_at_clock(self) -> float:
        """Each watch lasts two seconds: a shorter one counts as broken."""
        self._looks += 2
        return float(self._looks)

    def _build(self) -> BuiltAgent:
        options = AgentOptions(
            "",
            CommandLineOverrides(node=NODE),
            cluster=ClusterOptions(_ACCESS, NODE, NAMESPACE, "volcano-system"),
        )
        built = build_agent(self.paths, options, self._environ, self._tell)
        assert built.agent.start_waiting(self.at) == ()
        assert built.cluster is not None
        built.cluster._reports = True
        return built

    def _tell(self, entry: JournalEntry) -> None:
        self.told += 1
        self.lines.append(entry)

    def _make(self, path: str) -> None:
        folder = f"{self.roots.cgroup}/{path}"
        os.mkdir(folder)
        for name, text in _GROUP.items():
            self._put(f"{folder}/{name}", text)

    def _put(self, path: str, text: bytes) -> None:
        """Past what is in the place of os.write: this is what the kernel does."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self.kernel._write(file, text)
        os.close(file)

    def _use(self) -> None:
        """Up to two CPUs in the burstable tier, four tenths of one in the best-effort one."""
        self._used += self.period * 10_000 * (self.seconds * 37 % 200)
        self._count("kubepods", self.seconds * 500_000 + self._used)
        self._count("kubepods/burstable", self._used)
        self._count("kubepods/besteffort", self.seconds * 400_000)
        for number in self._living:
            pod = SoakPod(number)
            for path in (pod.group(), f"{pod.group()}/{pod.container}"):
                self._count(path, self.seconds * 100_000)

    def _count(self, path: str, usage: int) -> None:
        text = f"usage_usec {usage}\nnr_periods {10 * self.seconds}\nnr_throttled {self.seconds}\n"
        text += f"throttled_usec {1000 * self.seconds}\n"
        self._put(f"{self.roots.cgroup}/{path}/cpu.stat", text.encode())

    # --- its objects

    def _come_and_go(self) -> None:
        """What was made a second ago runs; what goes in a second is told to."""
        for number, until in tuple(self._living.items()):
            pod = SoakPod(number)
            if until == self.seconds:
                self._remove(pod)
            elif until == self.seconds + 1:
                self.api.put(PODS, pod.document(going=True))
            elif until == self.seconds + pod.lives - 1:
                self.api.put(PODS, pod.document())
        new = SoakPod(self.pods)
        self.pods += 1
        self._living[new.number] = self.seconds + new.lives
        self.api.put(PODS, new.document(running=False))
        self._make(new.group())
        self._make(f"{new.group()}/{new.container}")

    def _remove(self, pod: SoakPod) -> None:
        self._living.pop(pod.number, None)
        shutil.rmtree(f"{self.roots.cgroup}/{pod.group()}")
        self.api.remove(PODS, f"{TENANT}/{pod.name}")

    def _evicted(self, _namespace: str, name: str) -> None:
        number = int(name.removeprefix("pod-"))
        if number in self._living:
            self._remove(SoakPod(number))

    def _change_objects(self, phase: int) -> None:
        """What a person and the control plane do, at this second of the cycle."""
        if phase in _SETTINGS_AT:
            self.api.put(*settings(_SETTINGS_AT[phase](self.period)))
        elif phase == _POLICIES[0]:
            for resource, document in policies():
                self.api.put(resource, document)
        elif phase == _POLICIES[1]:
            for resource, document in policies():
                self.api.remove(resource, document["metadata"]["name"])
        elif phase == _WITHOUT_SETTINGS:
            self.api.remove(CONFIG_MAPS, f"{NAMESPACE}/slackwater-agent")
        elif phase in _SERVER_AWAY:
            self.api.away = _SERVER_AWAY[phase]
        if phase == _SERVER_FORGETS:
            self.api.forget()

    # --- what the agent's threads do

    def informers(self) -> list[Informer[object]]:
        feeds = [getattr(self.cluster.objects._feeds, name)
                 for name in self.cluster.objects._feeds.__struct_fields__]  # fmt: skip
        return [*feeds, self.cluster._topology.informer]

    def _hear(self) -> None:
        for place, each in enumerate(self.informers()):
            quiet = (self.seconds + place) % _BOOKMARK != 0
            for _ in range(3):  # a watch that is too old, a list, a watch
                if quiet and each._version and not self.api.has_news(each._resource):
                    break
                quiet = True
                each._list_and_watch()

    def _write(self) -> None:
        writer, topology = self.cluster._writer, self.cluster._topology.writer
        writer.write_due()
        sender = writer._sender
        assert isinstance(sender, EventRecorder)
        while sender.step() == 0.0:
            pass
        self.cluster.commands.run_due()
        if topology._woken or self.seconds % _ASKED_EVERY == 0:
            topology._woken = False
            topology.look()

    def _ask(self) -> None:
        """Prometheus, and now and then a person."""
        query = Query(self.built.shared, self.at)
        if self.seconds % _SCRAPED_EVERY == 0:
            assert endpoint_server.metrics(query).status == 200
            endpoint_server.readyz(query)
        if self.seconds % _ASKED_EVERY == 0:
            endpoint_server.top(query)
            endpoint_server.ticks(query)
            with contextlib.suppress(LookupError):
                endpoint_server.explain(query)
