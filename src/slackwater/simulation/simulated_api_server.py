"""What the API server keeps of a simulated node: its taint and condition, and pods that are ending.

It outlives the agents that ask for these, and carries out their commands at once. A pod that is
evicted works on until its grace period is over; the simulation ends it then.
"""

import random
from collections.abc import Callable, Iterable, Sequence

from slackwater.contract.node_interference import (
    NO_INTERFERENCE,
    NodeInterference,
    SeenInterference,
)
from slackwater.contract.node_offer import NO_OFFER, NodeOffer, SeenOffer
from slackwater.execution.commands import CommandQueue
from slackwater.execution.node_states import CommandAttempt
from slackwater.model.decision import Because, Command
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from slackwater.simulation.scenario import ScenarioPod

_SECOND = 1_000_000
_DONE = CommandAttempt(CommandState.DONE)


class SimulatedApiServer:
    """Guards the objects. `find_pod` gives the pod of that uid that runs now."""

    def __init__(
        self, find_pod: Callable[[str], ScenarioPod | None], clock: Callable[[], Micros]
    ) -> None:
        self._find_pod = find_pod
        self._clock = clock
        self.interference = NO_INTERFERENCE
        self.offer = NO_OFFER
        #: By uid, when the grace period of each pod that ends is over.
        self.ending: dict[str, Micros] = {}

    def evict(self, command: Command, _pod: Workload | None) -> CommandAttempt:
        pod = self._find_pod(command.uid)
        if pod is None:
            return CommandAttempt(CommandState.DONE, "the pod is gone", gone=True)
        stated = command.grace_seconds
        grace = pod.grace if stated is None else stated * _SECOND
        self.ending.setdefault(command.uid, Micros(self._clock() + grace))
        return _DONE

    def mark_node(self, wanted: NodeInterference, _because: Because) -> CommandAttempt:
        self.interference = wanted
        return _DONE

    def seen_interference(self) -> SeenInterference:
        shown = self.interference
        return SeenInterference(shown, bool(shown.effect), bool(shown.status))

    def offer_resources(self, wanted: NodeOffer) -> CommandAttempt:
        self.offer = wanted
        return _DONE

    def seen_offer(self) -> SeenOffer:
        return SeenOffer(dict(self.offer.amounts), frozenset(self.offer.amounts))


class SimulatedCommands(CommandQueue):
    """An agent's queue without a thread: what is due is carried out when it is offered."""

    def __init__(self, server: SimulatedApiServer, clock: Callable[[], Micros]) -> None:
        super().__init__(server, clock=clock, jitter=random.Random(0))  # noqa: S311 - not a secret

    def offer(
        self,
        commands: Sequence[Command],
        at: Micros,
        workloads: Iterable[Workload] | None = None,
        *,
        decided: bool = True,
    ) -> None:
        super().offer(commands, at, workloads, decided=decided)
        self.run_due()

    def release(self) -> None:
        super().release()
        self.run_due()
