"""An agent that can be killed at any effect, on a node in memory, and started again.

An effect is a write of the kernel's, or a write, rename or truncation of the ledger's file. The
process can die before and after each one; what it leaves is the kernel and the folder.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from slackwater.execution import ledger as ledger_module
from slackwater.execution.knob_writer import Attempt, Note, no_note
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import KNOBS, QUOTA, Knob, KnobValue
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.observation.objects.object_set import Objects
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.record.journal import TickRecord
from slackwater.settings.agent_document import Settings
from slackwater.simulation.demand import Demand, Steady
from slackwater.simulation.fake_kernel import FakeKernel
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.simulated_node import (
    ScenarioSource,
    SimulatedAgent,
    SimulatedNode,
    start_agent,
)

_Done = TypeVar("_Done")

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SECOND = Micros(1_000_000)
MAINLINE = tuple(knob for knob in KNOBS if not knob.vendor)
ON = Settings(policies={"best_effort_share": BestEffortShareSettings(enabled=True)})
OFF = Settings()


class Killed(BaseException):
    """In place of kill -9: nothing of ours catches it."""


class Fate:
    """Counts the points at which one could die; kills at the chosen one, if armed."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.met = 0
        self.deaths: Counter[str] = Counter()

    def meet(self, point: str) -> None:
        self.met += 1
        if self.left is None:
            return
        self.left -= 1
        if self.left == 0:
            self.left = None
            self.deaths[point] += 1
            raise Killed(point)


class MortalKernel(FakeKernel):
    """A kernel whose writer may die around each write; only the agent's writes have a note."""

    def __init__(self, version: CgroupVersion, cpus: int, fate: Fate) -> None:
        super().__init__(version, cpus)
        self._fate = fate
        #: Kubelet and rivals do not die.
        self.by_agent = False

    def write(self, change: Change, note: Note = no_note) -> Outcome:
        if not self.by_agent:
            return super().write(change, note)

        def noted(now: str, ours: str) -> Attempt | None:
            self._fate.meet("before the note")
            attempt = note(now, ours)
            self._fate.meet("between note and write")
            return attempt

        outcome = super().write(change, noted)
        if outcome.result is Result.APPLIED:
            self._fate.meet("after the write")
        return outcome


class MortalOs:
    """The ledger's os, whose effects on the disk one may not survive."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        plain = getattr(os, name)
        if name not in ("write", "rename", "truncate", "ftruncate"):
            return plain

        def effect(*arguments: Any) -> Any:
            self._fate.meet(f"before the ledger's {name}")
            done = plain(*arguments)
            self._fate.meet(f"after the ledger's {name}")
            return done

        return effect


class Bed:
    """A node, its kernel, the ledger's folder, and the agent that lives now."""

    def __init__(
        self,
        folder: Path | str,
        version: CgroupVersion,
        cpus: int = 8,
        settings: Settings = ON,
    ) -> None:
        self.fate = Fate()
        self.kernel = MortalKernel(version, cpus, self.fate)
        self.node = SimulatedNode(self.kernel)
        self.source = ScenarioSource(Objects(settings=settings))
        self._folder = str(folder)
        self.process: SimulatedAgent | None = None

    def pod(self, name: str, tier: Tier, demand: Demand | int, request: int = 0) -> CgroupRef:
        wants = Steady(MilliCpu(demand)) if isinstance(demand, int) else demand
        self.node.add(ScenarioPod(name, tier, wants, MilliCpu(request)))
        self.source.set_pods(self.node.pods)
        ref = self.node.group(name)
        assert isinstance(ref, CgroupRef)
        return ref

    def set(self, settings: Settings) -> None:
        self.source.objects = msgspec.structs.replace(self.source.objects, settings=settings)

    def start(self) -> SimulatedAgent:
        """A new process in place of whichever there was."""
        if self.process is not None:
            self.process.end()
        ledger = Ledger.open(self._folder, "boot")
        assert isinstance(ledger, Ledger), ledger
        self.process = start_agent(self.node, self.source, ledger, lambda _entry: None)
        assert self.process.agent.start(self.kernel.now) == ()
        return self.process

    def alive(self) -> SimulatedAgent:
        return self.process or self.start()

    def once(self, *, early: bool = False, after: Micros = SECOND) -> TickRecord:
        """A second passes, then one round."""
        process = self.alive()
        self.kernel.advance(after)
        done = self._as_agent(lambda: process.agent.once(self.kernel.now, early=early))
        assert isinstance(done, TickRecord), done
        return done

    def release(self) -> int:
        """How many knobs could not be put back."""
        process = self.alive()
        return self._as_agent(lambda: process.agent.release(self.kernel.now, "test").left)

    def survive(self, act: Callable[[], object]) -> bool:
        """Whether the process lived through it; if not, a new one has started."""
        try:
            act()
        except Killed:
            self.kernel.by_agent = False
            self.start()
            return False
        return True

    def _as_agent(self, act: Callable[[], _Done]) -> _Done:
        self.kernel.by_agent = True
        try:
            return act()
        finally:
            self.kernel.by_agent = False

    def knobs(self) -> dict[tuple[str, str], KnobValue | Gap]:
        """Every knob of every group. A v2 cpuset that was empty, "as the parent", comes back as
        every CPU where processes are in the group: the kernel takes no empty one there."""
        found = {
            (ref.path, knob.name): self.kernel.read(ref, knob)
            for ref in self.kernel.refs()
            for knob in MAINLINE
        }
        every = self.kernel.cpus()
        return {key: every if value == CpuSet() else value for key, value in found.items()}

    def quota(self) -> MilliCpu | Unlimited:
        found = self.kernel.read(self.node.tiers[Tier.BESTEFFORT], QUOTA)
        assert isinstance(found, Bandwidth)
        return found.milli()

    def text(self, knob: Knob) -> str | Attempt:
        return self.kernel.text(self.node.tiers[Tier.BESTEFFORT], knob)


def doomed_ledger(bed: Bed, patch: pytest.MonkeyPatch) -> None:
    """From now on the ledger's own effects count as well."""
    patch.setattr(ledger_module, "os", MortalOs(bed.fate))
