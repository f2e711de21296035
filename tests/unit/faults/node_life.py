"""A node in a folder and an agent's life on it: started, some rounds, ended; as often as wanted."""

import os
import sys
from pathlib import Path

import msgspec
import pytest

from slackwater.agent import launch
from slackwater.agent.building import AgentOptions, BuiltAgent, build_agent
from slackwater.agent.dependencies import CommandLineOverrides
from slackwater.agent.launch import SettingsProblemError
from slackwater.agent.node_writers import CannotStartError, NodePaths, release_all
from slackwater.model.cgroup import CgroupController, CgroupVersion
from slackwater.model.units import Micros
from slackwater.observation.host import Roots
from slackwater.record.journal import JournalEntry
from tests.unit.doctor.host_tree import host, kubelet, put
from tests.unit.execution.plain_kernel import V1_FILES, V2_FILES, PlainKernel

UID = "11111111-2222-4333-8444-00000000000{}"
CONTAINER = "{:064x}"
SECOND = Micros(1_000_000)
STAT = "usage_usec {}\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\nthrottled_time 2000\n"

SETTINGS = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec:
  agent: {reading: everything}
  bestEffortShare: {enabled: true, threshold: 80}
  qosLevel: {enabled: true}
  quotaBurst: {enabled: true}
  memoryQos: {enabled: true}
  elasticResources: {enabled: true}
  corePinning: {enabled: true}
  oversold: {enabled: true}
---
apiVersion: v1
kind: Node
metadata: {name: here, uid: 00000000-0000-4000-8000-000000000001}
status: {allocatable: {cpu: "4", memory: 8Gi}}
"""

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: pod-{number}
  namespace: tenant
  uid: {uid}
  annotations: {annotations}
spec:
  nodeName: here
  priority: {priority}
  containers:
  - name: main
    image: example.org/x:1
    resources: {resources}
status:
  phase: Running
  containerStatuses:
  - {{name: main, containerID: "containerd://{container}"}}
"""
KNOBS = {*V2_FILES, *(name for files in V1_FILES.values() for name in files)}


class Ending(msgspec.Struct, frozen=True):
    """How one life went: the sentence with which it could not start, else what it told."""

    refused: str = ""
    entries: tuple[JournalEntry, ...] = ()
    told: str = ""


class NodeLife:
    """Guards the folders of one node."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch, version: CgroupVersion) -> None:
        self._environ = {"SLACKWATER_CGROUP_VERSION": version.value}
        self.roots: Roots = host(top)
        self.folder = top / "node"
        self.paths = NodePaths(self.roots, "", f"{top}/run", f"{top}/lib")
        (top / "run").mkdir()
        self._at = SECOND
        put(Path(self.roots.proc) / "sys/kernel/random/boot_id", "this-boot\n")
        put(Path(self.roots.proc) / "stat", "cpu 1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
        put(Path(self.roots.proc) / "meminfo", "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
        put(Path(self.roots.proc) / "loadavg", "0.5 0.4 0.3 1/100 77\n")
        put(Path(self.roots.proc) / "1/stat", "1 (init) S 0 " + "1 " * 17 + "5 6\n")
        kubelet(self.roots)
        state = Path(self.roots.host) / "var/lib/kubelet/cpu_manager_state"
        put(state, '{"policyName": "none", "defaultCpuSet": "", "checksum": 1}')
        self.kernel = PlainKernel(Path(self.roots.cgroup), version, patch)
        put(Path(self.roots.cgroup) / "cpu.pressure", "some avg10=0 avg60=0 avg300=0 total=0\n")
        for path in ("kubepods", "kubepods/besteffort", "kubepods/burstable"):
            self._make(path)
        self._pods()
        # An agent makes no files in a kernel's tree, and hundreds of lives are lived here.
        files = [each for each in sorted(Path(self.roots.cgroup).rglob("*")) if each.is_file()]
        self._knobs = [each for each in files if each.name in KNOBS]
        self._counters = [each for each in files if each.name in ("cpu.stat", "cpuacct.usage")]
        self.baseline = self.values()
        for module in list(sys.modules.values()):
            if module.__name__.startswith("slackwater") and hasattr(module, "monotonic_now"):
                patch.setattr(module, "monotonic_now", self._now)

    def _now(self) -> Micros:
        return self._at

    def _make(self, path: str) -> None:
        self.kernel.make(path)
        for controller in CgroupController:
            top = self.kernel.folder(path, controller)
            put(top / "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n")
            put(top / "memory.current", "4096\n")
            put(top / "memory.stat", "inactive_file 0\n")
            put(top / "cgroup.procs", "")
            put(top / "cpuset.mems", "0\n")
            put(top / "cpu.stat", STAT.format(7))
            put(top / "cpuacct.usage", "7000\n")

    def _pods(self) -> None:
        put(self.folder / "settings.yaml", SETTINGS)
        elastic = "{requests: {gocrane.io/cpu: 1}, limits: {gocrane.io/cpu: 1}}"
        whole = "{requests: {cpu: 1}, limits: {cpu: 1}}"
        for number, (tier, annotations, priority, resources) in enumerate((
            ("besteffort/", '{volcano.sh/qos-level: "BE"}', -100, "{}"),
            ("besteffort/", "{}", -50, elastic),
            ("", "{qos.gocrane.io/cpu-manager: exclusive}", 1000, whole),
        )):  # fmt: skip
            uid, container = UID.format(number), CONTAINER.format(number + 1)
            self._make(f"kubepods/{tier}pod{uid}")
            self._make(f"kubepods/{tier}pod{uid}/{container}")
            put(
                self.folder / f"pod-{number}.yaml",
                POD.format(
                    number=number,
                    uid=uid,
                    annotations=annotations,
                    priority=priority,
                    resources=resources,
                    container=container,
                ),
            )

    def values(self) -> dict[str, str]:
        """What every knob of every group reads."""
        top = Path(self.roots.cgroup)
        return {str(each.relative_to(top)): each.read_text().strip() for each in self._knobs}

    def changed(self) -> dict[str, str]:
        """What does not read as it did without us."""
        now = self.values()
        return {name: text for name, text in now.items() if text != self.baseline.get(name)}

    def live(self, rounds: int) -> Ending:
        entries: list[JournalEntry] = []
        overrides = CommandLineOverrides(node="here")
        options = AgentOptions(str(self.folder), overrides, evict_by_signal=True)
        built: BuiltAgent | None = None
        told = ""
        try:
            built = build_agent(self.paths, options, self._environ, entries.append)
            with launch._started(built):
                for _ in range(rounds):
                    self._at = Micros(self._at + SECOND)
                    self._use()
                    built.agent.once(self._at)
                told = str(list(built.shared.journal.ticks))
        except (CannotStartError, SettingsProblemError) as error:
            return Ending(str(error), tuple(entries))
        finally:
            if built is not None:
                self._end(built)
        return Ending("", tuple(entries), told)

    @staticmethod
    def _end(built: BuiltAgent) -> None:
        """What the end of the process does."""
        if built.executor is not None:
            built.executor.ledger.close()
        if built.tree_lock is not None:
            os.close(built.tree_lock)

    def _use(self) -> None:
        for each in self._counters:
            text = STAT.format(self._at) if each.name == "cpu.stat" else f"{1000 * self._at}\n"
            each.write_text(text)

    def release(self) -> list[str]:
        """By the command, without an agent: what it told."""
        try:
            entries, left = release_all(self.paths, self._environ)
        except CannotStartError as error:
            return [str(error)]
        return [str(entries), f"{left} left"] if left else []
