"""Owns the work for later stages that goes on beside earlier ones: kernels, Kubernetes' programs.

Refuses to do any of it itself: each piece is a command of tools.vm, tools.kubernetes, tools.image,
tools.kafka or tools.cluster, whose words are kept and shown.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.children import Children
from tools.console import say
from tools.stages import PYTHON, BrokerSuite, ClusterSuite, Stage, VmSuite

CLUSTER = (PYTHON, "-m", "tools.cluster")
VM = (PYTHON, "-m", "tools.vm")
KUBERNETES = (PYTHON, "-m", "tools.kubernetes")
_TOOLS = ("vm", "kubernetes", "cluster", "image", "kafka")


@dataclass(frozen=True, slots=True)
class Work:
    """Two stages that need the same share it. `check` fails where it need not be begun."""

    what: str
    check: tuple[str, ...]
    command: tuple[str, ...]


#: What a real node runs of ours.
IMAGE = Work(
    "the image",
    (PYTHON, "-m", "tools.image", "check"),
    (PYTHON, "-m", "tools.image", "build"),
)
BROKER = Work(
    "Kafka",
    (PYTHON, "-m", "tools.kafka", "check"),
    (PYTHON, "-m", "tools.kafka", "fetch"),
)


def kernel_for(stage: VmSuite) -> Work:
    choice = ("--init", stage.init, "--kernel", stage.kernel)
    return Work(f"Linux {stage.kernel}", (*VM, "check", *choice), (*VM, "prepare", *choice))


def programs_for(stage: VmSuite | ClusterSuite) -> Work:
    """What they need besides differs with where they run."""
    where = KUBERNETES if isinstance(stage, VmSuite) else CLUSTER
    check = (*where, "check", *stage.programs)
    return Work(", ".join(stage.programs), check, (*KUBERNETES, "build", *stage.programs))


def works_for(stage: Stage) -> tuple[Work, ...]:
    match stage:
        case VmSuite(programs=()):
            return (kernel_for(stage),)
        case VmSuite():
            return (kernel_for(stage), programs_for(stage))
        case ClusterSuite() if "kubelet" in stage.programs:
            return (programs_for(stage), IMAGE)
        case ClusterSuite():
            return (programs_for(stage),)
        case BrokerSuite():
            return (BROKER,)
    return ()


class Preparations:
    """Guards the running work and what became of it."""

    def __init__(self, children: Children, stages: Iterable[Stage], reports: Path) -> None:
        self._children = children
        works = dict.fromkeys(work for stage in stages for work in works_for(stage))
        self._words = {
            work: reports / f"preparation-{number}.log" for number, work in enumerate(works)
        }
        self._reasons = dict.fromkeys(works, "")
        self._running: dict[Work, subprocess.Popen[bytes]] = {}
        self._told: dict[Work, str] = {}

    def begin(self) -> None:
        """Starts what can be done here; the reason of what cannot is kept."""
        for work, words in self._words.items():
            code, said = self._children.run_quietly(work.check, {})
            if code != 0:
                self._reasons[work] = last_sentence(said)
                continue
            with words.open("wb") as output:
                self._running[work] = self._children.start(work.command, {}, output)

    def tell_news(self) -> None:
        """Between two stages: how far the rest has come, where that is new."""
        for work, child in self._running.items():
            line = self.progress(work)
            if child.poll() is None and line and self._told.get(work) != line:
                self._told[work] = line
                say(f"meanwhile: {line}")

    def pending(self, stage: Stage) -> Work | None:
        """What the stage still has to wait for; what has failed is a reason from now on."""
        for work in tuple(self._running):
            if self._running[work].poll() is not None:
                self._conclude(work)
        return next((work for work in works_for(stage) if work in self._running), None)

    def progress(self, work: Work) -> str:
        """What it said last."""
        return last_sentence(self._said(work), "")

    def reason(self, stage: Stage) -> str:
        """Why the stage cannot run, for lack of what it needs; nothing if it is all there."""
        return next(filter(None, (self._reasons[work] for work in works_for(stage))), "")

    def programs(self, stage: Stage) -> dict[str, str]:
        """Where each program of the stage is: the last words of their build."""
        if not isinstance(stage, VmSuite | ClusterSuite) or not stage.programs:
            return {}
        paths = self._said(programs_for(stage)).splitlines()[-len(stage.programs) :]
        return dict(zip(stage.programs, paths, strict=True))

    def _conclude(self, work: Work) -> None:
        if self._children.wait(self._running.pop(work)) != 0:
            said = self._said(work)
            say(said.rstrip())
            self._reasons[work] = f"could not be prepared: {last_sentence(said)}"

    def _said(self, work: Work) -> str:
        return self._words[work].read_text(errors="replace")


def last_sentence(said: str, otherwise: str = "it gave no reason") -> str:
    """Our tools say last what is wrong, with their own names before it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not lines:
        return otherwise
    name, _, sentence = lines[-1].partition(": ")
    return sentence if name in _TOOLS else lines[-1]
