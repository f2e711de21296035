"""Carries out commands off the tick: evictions, and what is wanted of the Node.

A thread of its own works through what is due, so that the agent's loop never waits. A runner does
the work: the API server's, one that sends signals, or one that says that nobody can. What is wanted
of the Node is a state (execution.node_states). An eviction is tried again, with back-off, until it
is taken; it is in flight until its pod is gone, or for a bounded time.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from slackwater.contract.node_interference import (
    NO_INTERFERENCE,
    NodeInterference,
    SeenInterference,
)
from slackwater.contract.node_offer import NO_OFFER, NodeOffer, SeenOffer
from slackwater.contract.pod_protection import EXEMPT_REASON
from slackwater.execution.node_states import (
    CommandAttempt,
    NodeMarks,
    NodeOffers,
    NodeRunner,
    WantedNodeState,
)
from slackwater.http.errors import Backoff
from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.plan import CommandOutcome, CommandProgress, CommandState
from slackwater.model.units import Micros
from slackwater.model.workload import Workload

_SECOND = 1_000_000
#: Between two attempts at the same thing.
FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
#: How long an eviction counts beyond its grace period, taken or not: after that the policy may ask
#: again.
EVICTION_SECONDS = 300
#: The grace period of a pod that states none, as in Kubernetes.
DEFAULT_GRACE_SECONDS = 30
_MOST_OUTCOMES = 1000


class CommandRunner(NodeRunner, Protocol):
    """Carries out one command at a time; may wait for the network."""

    def evict(self, command: Command, pod: Workload | None, /) -> CommandAttempt: ...


class NobodyCarriesOut:
    """For agents that may not or cannot: commands are told, and that is all."""

    def __init__(self, reason: str = "there is no API server; told only") -> None:
        self._reason = reason

    def evict(self, _command: Command, _pod: Workload | None) -> CommandAttempt:
        return CommandAttempt(CommandState.IMPOSSIBLE, self._reason)

    def mark_node(self, wanted: NodeInterference, _because: Because) -> CommandAttempt:
        if wanted == NO_INTERFERENCE:
            return CommandAttempt(CommandState.DONE)
        return CommandAttempt(CommandState.IMPOSSIBLE, self._reason)

    def seen_interference(self) -> SeenInterference | None:
        return None

    def offer_resources(self, wanted: NodeOffer) -> CommandAttempt:
        if wanted == NO_OFFER:
            return CommandAttempt(CommandState.DONE)
        return CommandAttempt(CommandState.IMPOSSIBLE, self._reason)

    def seen_offer(self) -> SeenOffer | None:
        return None


class _Eviction:
    """One eviction between attempts."""

    def __init__(self, command: Command, pod: Workload | None, at: Micros, pace: Backoff) -> None:
        grace = command.grace_seconds
        bound = EVICTION_SECONDS + (DEFAULT_GRACE_SECONDS if grace is None else grace)
        self.command, self.pod, self.since, self.pace = command, pod, at, pace
        self.deadline = Micros(at + bound * _SECOND)
        self.state = CommandState.QUEUED
        self.detail = ""
        #: When it is tried; None: not again.
        self.due: Micros | None = at
        self.is_sent = False

    def progress(self) -> CommandProgress:
        retry = self.due if self.state is CommandState.REFUSED else None
        return CommandProgress(
            self.command, self.state, self.since, self.detail, retry or Micros(0)
        )


class CommandQueue:
    """Guards the commands that were taken up, and the thread that carries them out."""

    def __init__(
        self, runner: CommandRunner, *, clock: Callable[[], Micros], jitter: random.Random
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._jitter = jitter
        self._evictions: dict[str, _Eviction] = {}
        self._states: tuple[WantedNodeState[Any, Any], ...] = tuple(
            kind(runner, clock, self._new_pace(), self._note) for kind in (NodeMarks, NodeOffers)
        )
        self._outcomes: deque[CommandOutcome] = deque(maxlen=_MOST_OUTCOMES)
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(
        self,
        commands: Sequence[Command],
        at: Micros,
        workloads: Iterable[Workload] | None = None,
        *,
        decided: bool = True,
    ) -> None:
        """After each tick: everything that is asked for now. Never waits for the network.

        `workloads` are the node's pods: an eviction of one that is not among them is finished, and
        none of a protected one begins. Before each policy has `decided` once nothing is removed.
        """
        with self._changed:
            evictions = [each for each in commands if each.kind is CommandKind.EVICT]
            if evictions or self._evictions:
                pods = None if workloads is None else {each.uid: each for each in workloads}
                self._end_evictions(pods, at)
                for each in evictions:
                    self._take_eviction(each, pods, at)
            for state in self._states:
                state.take(commands, at, decided=decided)
            if self._next_due() <= at:
                self._changed.notify()

    def progress(self) -> tuple[CommandProgress, ...]:
        """What is in flight, for the next snapshot."""
        with self._changed:
            evictions = (each.progress() for each in self._evictions.values())
            of_node = (each for state in self._states for each in state.progress())
            return (*evictions, *of_node)

    def outcomes(self) -> tuple[CommandOutcome, ...]:
        """What changed since the last call."""
        with self._changed:
            found = tuple(self._outcomes)
            self._outcomes.clear()
            return found

    def withdraw(self) -> None:
        """No eviction is needed any more: those that were refused or not sent are dropped. What was
        taken cannot be taken back."""
        with self._changed:
            for uid, entry in tuple(self._evictions.items()):
                if entry.state is CommandState.REFUSED or not entry.is_sent:
                    del self._evictions[uid]

    def release(self) -> None:
        """Nothing is wanted any more: taint, condition and extended resources go, and no eviction
        begins."""
        self.withdraw()
        with self._changed:
            for state in self._states:
                state.take((), self._clock(), decided=True)
            self._changed.notify()

    def is_released(self) -> bool:
        """Whether nothing is wanted of the Node, and it shows nothing of ours."""
        with self._changed:
            return all(state.is_gone() for state in self._states)

    def stop(self, patience: float) -> None:
        """Waits for the attempt in progress, and for what `release` asked for."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(patience)

    def run_due(self) -> None:
        """Carries out all that is due; what the thread does."""
        while self._write_node(self._states) or self._run_eviction():
            pass

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ended and self._next_due() > (now := self._clock()):
                    self._changed.wait(min((self._next_due() - now) / _SECOND, LONGEST_WAIT))
                released = tuple(state for state in self._states if state.is_released())
                ended = self._ended
            if ended:
                while self._write_node(released):
                    pass
                return
            if not self._write_node(self._states):
                self._run_eviction()

    def _new_pace(self) -> Backoff:
        return Backoff(FIRST_WAIT, LONGEST_WAIT, self._jitter)

    def _next_due(self) -> Micros:
        due = [each.due for each in self._evictions.values() if each.due is not None]
        due += [found for state in self._states if (found := state.next_due()) is not None]
        return min(due, default=Micros(self._clock() + int(LONGEST_WAIT) * _SECOND))

    def _tell(self, command: Command, state: CommandState, detail: str, *, undone: bool) -> None:
        self._note(CommandOutcome(command, state, self._clock(), detail, undone))

    def _note(self, outcome: CommandOutcome) -> None:
        self._outcomes.append(outcome)

    def _write_node(self, states: Iterable[WantedNodeState[Any, Any]]) -> bool:
        """Whether some part of the Node was written, or that was tried."""
        for state in states:
            with self._changed:
                write = state.begin()
            if write is not None:
                attempt = state.write(write.wanted, write.because)
                with self._changed:
                    state.settle(write, attempt)
                return True
        return False

    # --- evictions

    def _take_eviction(
        self, command: Command, pods: Mapping[str, Workload] | None, at: Micros
    ) -> None:
        if command.key in self._evictions:
            return
        pod = None if pods is None else pods.get(command.uid)
        if pods is not None and pod is None:
            return  # it went meanwhile
        entry = _Eviction(command, pod, at, self._new_pace())
        self._evictions[command.key] = entry
        if refusal := _refuse_eviction(command, pod):
            self._settle_eviction(entry, CommandAttempt(CommandState.REFUSED, refusal))
            entry.due = None  # the pod will not become another one

    def _end_evictions(self, pods: Mapping[str, Workload] | None, at: Micros) -> None:
        for key, entry in tuple(self._evictions.items()):
            if pods is not None and entry.command.uid not in pods:
                del self._evictions[key]
                if entry.is_sent:
                    self._tell(entry.command, CommandState.DONE, "the pod is gone", undone=False)
            elif at >= entry.deadline:
                del self._evictions[key]
                after = (at - entry.since) // _SECOND
                detail = f"the pod is still there after {after} s; {entry.detail or 'given up'}"
                self._tell(entry.command, CommandState.REFUSED, detail, undone=False)

    def _run_eviction(self) -> bool:
        """The one that waits longest of those that are due; whether there was one."""
        with self._changed:
            now = self._clock()
            waiting = [e for e in self._evictions.values() if e.due is not None and e.due <= now]
            if not waiting:
                return False
            entry = min(waiting, key=lambda each: each.due or 0)
            entry.due = None
            entry.is_sent = True
        attempt = self._runner.evict(entry.command, entry.pod)
        with self._changed:
            if self._evictions.get(entry.command.key) is entry:
                self._settle_eviction(entry, attempt)
        return True

    def _settle_eviction(self, entry: _Eviction, attempt: CommandAttempt) -> None:
        if attempt.gone:
            del self._evictions[entry.command.key]
            self._tell(entry.command, CommandState.DONE, attempt.detail, undone=False)
            return
        if (entry.state, entry.detail) != (attempt.state, attempt.detail):
            self._tell(entry.command, attempt.state, attempt.detail, undone=False)
        entry.state, entry.detail = attempt.state, attempt.detail
        entry.due = None
        if attempt.state in (CommandState.REFUSED, CommandState.QUEUED):
            entry.due = self._after(entry.pace.after_failure(attempt.again_after))
        elif attempt.again_after is not None:
            entry.due = self._after(attempt.again_after)

    def _after(self, seconds: float) -> Micros:
        return Micros(self._clock() + int(seconds * _SECOND))


def _refuse_eviction(command: Command, pod: Workload | None) -> str:
    """Why this pod is never evicted, whatever a policy says; empty where it may be."""
    if not command.uid:
        return "a pod without a uid could be another one by the time it is evicted"
    overruled = command.overrules_exemption and pod is not None and pod.protected == EXEMPT_REASON
    if pod is not None and pod.protected and not overruled:
        return f"the pod is protected: {pod.protected}"
    if pod is not None and pod.terminating:
        return "the pod is terminating already"
    return ""
