"""A kubelet's slices and a runtime's scope as transient units of a real systemd.

Owns the units of one test. Everything is asked of systemd by hand, over its private socket.
"""

import itertools
import os
import signal
import subprocess
from typing import Any

from slackwater.execution.systemd_wire import (
    PRIVATE_SOCKET,
    SystemdError,
    SystemdWire,
    Variant,
)
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.knob import Knob, KnobValue
from slackwater.model.plan import Change
from tests.kernel.bed import ROOT, get, mounts_of, put
from tests.kernel.hand import clock, until, writer_of

_numbers = itertools.count(1)
#: Under emulation a daemon-reload keeps systemd busy for seconds.
PATIENCE = 300.0
MOUNTS = mounts_of(CgroupVersion.V2)


def wire() -> SystemdWire:
    return SystemdWire.connect(PRIVATE_SOCKET, PATIENCE)


def unit_writer() -> UnitWriter:
    found = UnitWriter.open(writer_of(MOUNTS), clock, timeout=PATIENCE)
    assert isinstance(found, UnitWriter), found
    return found


def to(ref: CgroupRef, knob: Knob, new: KnobValue) -> Change:
    """A change whose direction does not matter."""
    return Change(ref, knob, new, new)


def systemctl(*words: str) -> None:
    subprocess.run(["systemctl", *words], check=True, timeout=300)


class Node:
    """kubepods, the best-effort tier, a pod and a container, as the kubelet makes them."""

    def __init__(self) -> None:
        self.top = f"kubepods{next(_numbers)}x{os.getpid()}"
        self.process = _sleeper()
        tier = f"{self.top}-besteffort"
        self.slice(f"{self.top}.slice", CPUWeight=("t", 79))
        self.slice(f"{tier}.slice", CPUWeight=("t", 1))
        self.tier = f"{self.top}.slice/{tier}.slice"
        self.pod = self.add_pod("pod1")
        self.container = f"{self.pod}/cri-containerd-{self.top}.scope"
        self._scope(self.container.rsplit("/", 1)[-1], f"{tier}-pod1.slice")

    def add_pod(self, name: str) -> str:
        """The path of its slice."""
        unit = f"{self.top}-besteffort-{name}.slice"
        self.slice(unit, CPUWeight=("t", 10), CPUQuotaPerSecUSec=("t", 500_000))
        return f"{self.tier}/{unit}"

    def slice(self, name: str, **properties: Variant) -> None:
        """What runc's systemd driver sets for a kubelet's slice; the quota's period is unset."""
        properties["DefaultDependencies"] = ("b", False)
        for accounting in ("CPUAccounting", "MemoryAccounting"):
            properties[accounting] = ("b", True)
        self._start(name, properties)

    def _scope(self, name: str, parent: str) -> None:
        self._start(
            name,
            {
                "Slice": ("s", parent),
                "Delegate": ("b", True),
                "DefaultDependencies": ("b", False),
                "CPUWeight": ("t", 10),
                "MemoryMax": ("t", 2**27),
                "PIDs": ("au", [self.process]),
            },
        )

    def _start(self, name: str, properties: dict[str, Variant]) -> None:
        with wire() as systemd:
            body: tuple[object, ...] = (name, "replace", list(properties.items()), [])
            systemd.manager("StartTransientUnit", "ssa(sv)a(sa(sv))", *body)
        until(lambda: self.property(name, "ActiveState", "Unit") == "active", PATIENCE)

    def property(self, name: str, of: str, interface: str = "") -> Any:
        kind = interface or ("Slice" if name.endswith(".slice") else "Scope")
        with wire() as systemd:
            try:
                (path,) = systemd.manager("GetUnit", "s", name)
                return systemd.get(path, kind, of)
            except SystemdError:
                return None

    def set(self, path: str, **properties: Variant) -> None:
        """As another program would, the kubelet for one."""
        with wire() as systemd:
            pairs = list(properties.items())
            name = path.rsplit("/", 1)[-1]
            systemd.manager("SetUnitProperties", "sba(sv)", name, True, pairs)
            systemd.manager("GetUnit", "s", name)

    def ref(self, path: str, level: Level = Level.POD) -> CgroupRef:
        return CgroupRef(path, os.stat(f"{ROOT}/{path}").st_ino, level)

    def text(self, path: str, file: str) -> str:
        return get(f"{ROOT}/{path}/{file}")

    def write(self, path: str, file: str, text: str) -> None:
        put(f"{ROOT}/{path}/{file}", text)

    def picture(self) -> dict[str, str]:
        """Every value that the tests change: in the kernel's files and in the units."""
        texts = {}
        for path in (self.tier, self.pod, self.container):
            for file in _FILES:
                if os.path.exists(f"{ROOT}/{path}/{file}"):
                    texts[f"{path}/{file}"] = self.text(path, file)
            name = path.rsplit("/", 1)[-1]
            texts |= {f"{name} {each}": str(self.property(name, each)) for each in _PROPERTIES}
        return texts

    def stop(self, path: str) -> None:
        with wire() as systemd:
            systemd.manager("StopUnit", "ss", path.rsplit("/", 1)[-1], "replace")
        until(lambda: not os.path.exists(f"{ROOT}/{path}"), PATIENCE)

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        if os.path.exists(f"{ROOT}/{self.top}.slice"):
            self.stop(f"{self.top}.slice")


_FILES = (
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.idle",
    "cpuset.cpus.effective",
    "memory.max",
    "memory.high",
)
_PROPERTIES = (
    "CPUQuotaPerSecUSec",
    "CPUQuotaPeriodUSec",
    "CPUWeight",
    "AllowedCPUs",
    "MemoryMax",
    "MemoryHigh",
)


def _sleeper() -> int:
    pid = os.fork()
    if not pid:
        try:
            while True:
                signal.pause()
        finally:
            os._exit(1)
    return pid
