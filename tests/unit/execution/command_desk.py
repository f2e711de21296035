"""A queue of commands with a clock that a test moves, and a runner that answers as it is told."""

import random
from typing import Any

from slackwater.contract.node_interference import (
    CONDITION,
    TAINT,
    NodeInterference,
    SeenInterference,
)
from slackwater.contract.node_offer import NodeOffer, SeenOffer
from slackwater.execution.commands import CommandQueue
from slackwater.execution.node_states import CommandAttempt
from slackwater.model.cgroup import Tier
from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.elastic import ELASTIC_CPU
from slackwater.model.gap import Gap
from slackwater.model.plan import CommandOutcome, CommandProgress, CommandState
from slackwater.model.units import Micros
from slackwater.model.workload import Workload

BECAUSE = Because("cpu_total_usage", "6500", "6000")
SECOND = 1_000_000
DONE = CommandAttempt(CommandState.DONE)


def evict(name: str = "job", **fields: Any) -> Command:
    filled: dict[str, Any] = {"uid": f"uid-{name}", "grace_seconds": 30} | fields
    return Command(
        f"uid-{name}", CommandKind.EVICT, f"batch/{name}", BECAUSE, "watermark_relief", **filled
    )


def taint(effect: str = "", target: str = TAINT) -> Command:
    return Command(
        f"taint {target}", CommandKind.TAINT, target, BECAUSE, "watermark_relief", value=effect
    )


def condition(status: str = "", target: str = CONDITION) -> Command:
    return Command(
        f"condition {target}", CommandKind.CONDITION, target, BECAUSE, "watermark_relief",
        value=status,
    )  # fmt: skip


def resource(amount: str, target: str = ELASTIC_CPU) -> Command:
    return Command(
        f"node resource/{target}", CommandKind.NODE_RESOURCE, target, BECAUSE, "oversold",
        value=amount,
    )  # fmt: skip


def pod(name: str = "job", **fields: Any) -> Workload:
    return Workload(f"uid-{name}", name, "batch", Tier.BESTEFFORT, Gap("no tree"), **fields)


class RunnerDesk:
    """Is the runner too. What it shows of the Node is what was written last, unless told."""

    def __init__(self) -> None:
        self.now = Micros(0)
        self.evicted: list[str] = []
        self.marked: list[NodeInterference] = []
        self.answers: list[CommandAttempt] = []
        self.seen: SeenInterference | None = SeenInterference()
        self.offered: list[NodeOffer] = []
        self.shown: SeenOffer | None = SeenOffer()
        self.queue = CommandQueue(
            self,
            clock=lambda: self.now,
            jitter=random.Random(1),  # noqa: S311
        )

    def evict(self, command: Command, _pod: Workload | None) -> CommandAttempt:
        self.evicted.append(command.uid)
        return self.answers.pop(0) if self.answers else DONE

    def mark_node(self, wanted: NodeInterference, _because: Because) -> CommandAttempt:
        self.marked.append(wanted)
        answer = self.answers.pop(0) if self.answers else DONE
        if answer.state is CommandState.DONE and self.seen is not None:
            self.seen = SeenInterference(wanted, bool(wanted.effect), bool(wanted.status))
        return answer

    def seen_interference(self) -> SeenInterference | None:
        return self.seen

    def offer_resources(self, wanted: NodeOffer) -> CommandAttempt:
        self.offered.append(wanted)
        answer = self.answers.pop(0) if self.answers else DONE
        if answer.state is CommandState.DONE and self.shown is not None:
            self.shown = SeenOffer(dict(wanted.amounts), frozenset(wanted.amounts))
        return answer

    def seen_offer(self) -> SeenOffer | None:
        return self.shown

    def round(
        self,
        *commands: Command,
        pods: tuple[Workload, ...] | None = None,
        seconds: float = 1,
        decided: bool = True,
    ) -> None:
        """A tick so much later, and all that is due."""
        self.now = Micros(self.now + int(seconds * SECOND))
        self.queue.offer(commands, self.now, pods, decided=decided)
        self.queue.run_due()

    def progress(self) -> CommandProgress:
        [found] = self.queue.progress()
        return found

    def told(self) -> list[tuple[str, CommandState, str, bool]]:
        return [_line(each) for each in self.queue.outcomes()]


def _line(outcome: CommandOutcome) -> tuple[str, CommandState, str, bool]:
    return outcome.command.title(), outcome.state, outcome.detail, outcome.undone
