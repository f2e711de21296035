"""Carries out commands off the tick: evictions, and the Node's taint and condition.

A thread of its own works through what is due, so that the agent's loop never waits. A runner does
the work: the API server's, one that sends signals, or one that says that nobody can. Taint and
condition are states: what is offered is compared with what the Node shows, and only a difference is
written. An eviction is tried again, with back-off, until it is taken; it is in flight until its pod
is gone, or for a bounded time.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from slackwater.contract.node_interference import (
    CONDITION,
    EFFECTS,
    NO_INTERFERENCE,
    PREFER_NO_SCHEDULE,
    STATUSES,
    TAINT,
    NodeInterference,
    SeenInterference,
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
#: After a write the informer shows the Node as it was for a moment.
SETTLE = Micros(5 * _SECOND)
_MOST_OUTCOMES = 1000
_NOBODY_ASKS = Because("commands", "nobody asks for it", "")


class CommandAttempt(msgspec.Struct, frozen=True):
    """How one attempt ended. `gone`: the pod is not there any more. `again_after` is in seconds: at
    least that long a refused command waits, and after that a running one is looked at again."""

    state: CommandState
    detail: str = ""
    gone: bool = False
    again_after: float | None = None


class CommandRunner(Protocol):
    """Carries out one command at a time; may wait for the network."""

    def evict(self, command: Command, pod: Workload | None, /) -> CommandAttempt: ...

    def mark_node(self, wanted: NodeInterference, because: Because, /) -> CommandAttempt: ...

    def seen_interference(self) -> SeenInterference | None:
        """What the Node shows, without asking; None where nobody knows."""
        ...


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


class _NodeMarks:
    """What is wanted of the Node's taint and condition, and how far it is. Before the first
    decision nothing is, and what an earlier run left stays."""

    def __init__(self, pace: Backoff) -> None:
        self.pace = pace
        self.commands: dict[CommandKind, Command] = {}
        #: The last of each kind, asked for or not any more.
        self.last: dict[CommandKind, Command] = {}
        self.wanted: NodeInterference | None = None
        #: What the Node was made, or found to be.
        self.settled: NodeInterference | None = None
        self.state = CommandState.DONE
        self.detail = ""
        self.since = Micros(0)
        #: When the Node is next written if it is not as wanted; None: not before that changes.
        self.due: Micros | None = None

    def want(self, wanted: NodeInterference, at: Micros) -> None:
        if wanted != self.wanted:
            self.wanted, self.since, self.due = wanted, at, at
            self.state, self.detail = CommandState.QUEUED, ""
            self.pace.reset()

    def because(self) -> Because:
        command = self.commands.get(CommandKind.CONDITION) or self.commands.get(CommandKind.TAINT)
        return command.because if command else _NOBODY_ASKS

    def find_due(self, seen: SeenInterference | None) -> Micros | None:
        """When the Node has to be written; None where it is as wanted, as far as is known."""
        if self.wanted is None:
            return None
        if seen is not None and not seen.differs(self.wanted):
            self.settled, self.state, self.detail = self.wanted, CommandState.DONE, ""
            return None
        return None if seen is None and self.settled == self.wanted else self.due

    def find_undone(
        self, wanted: NodeInterference, before: NodeInterference
    ) -> tuple[Command, ...]:
        """Whose effect goes; of an earlier run's, a command that says so."""
        gone = (
            (CommandKind.TAINT, TAINT, before.effect and not wanted.effect),
            (CommandKind.CONDITION, CONDITION, before.status and not wanted.status),
        )
        return tuple(
            self.last.get(kind, Command(target, kind, target, _NOBODY_ASKS, ""))
            for kind, target, is_gone in gone
            if is_gone
        )

    def progress(self) -> Iterator[CommandProgress]:
        if self.state is CommandState.DONE:
            return
        retry = self.due if self.state is CommandState.REFUSED else None
        for command in self.commands.values():
            yield CommandProgress(command, self.state, self.since, self.detail, retry or Micros(0))


class CommandQueue:
    """Guards the commands that were taken up, and the thread that carries them out."""

    def __init__(
        self, runner: CommandRunner, *, clock: Callable[[], Micros], jitter: random.Random
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._jitter = jitter
        self._evictions: dict[str, _Eviction] = {}
        self._marks = _NodeMarks(self._new_pace())
        self._misfits: dict[str, CommandProgress] = {}
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
            self._want_marks(commands, at, decided=decided)
            if self._next_due() <= at:
                self._changed.notify()

    def progress(self) -> tuple[CommandProgress, ...]:
        """What is in flight, for the next snapshot."""
        with self._changed:
            evictions = (each.progress() for each in self._evictions.values())
            return (*evictions, *self._marks.progress(), *self._misfits.values())

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
        """Nothing is wanted any more: taint and condition go, and no eviction begins."""
        self.withdraw()
        with self._changed:
            self._want_marks((), self._clock(), decided=True)
            self._changed.notify()

    def stop(self, patience: float) -> None:
        """Waits for the attempt in progress, and for what `release` asked for."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(patience)

    def run_due(self) -> None:
        """Carries out all that is due; what the thread does."""
        while self._run_marks() or self._run_eviction():
            pass

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ended and self._next_due() > (now := self._clock()):
                    self._changed.wait(min((self._next_due() - now) / _SECOND, LONGEST_WAIT))
                if self._ended and self._marks.wanted != NO_INTERFERENCE:
                    return
                ended = self._ended
            if ended:
                self._run_marks()
                return
            if not self._run_marks():
                self._run_eviction()

    def _new_pace(self) -> Backoff:
        return Backoff(FIRST_WAIT, LONGEST_WAIT, self._jitter)

    def _next_due(self) -> Micros:
        due = [each.due for each in self._evictions.values() if each.due is not None]
        marks = self._marks.find_due(self._runner.seen_interference())
        if marks is not None:
            due.append(marks)
        return min(due, default=Micros(self._clock() + int(LONGEST_WAIT) * _SECOND))

    def _tell(self, command: Command, state: CommandState, detail: str, *, undone: bool) -> None:
        outcome = CommandOutcome(command, state, self._clock(), detail, undone)
        self._outcomes.append(outcome)

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

    # --- the Node's taint and condition

    def _want_marks(self, commands: Sequence[Command], at: Micros, *, decided: bool) -> None:
        asked = [each for each in commands if each.kind is not CommandKind.EVICT]
        good = [each for each in asked if not self._misfit(each, at)]
        self._misfits = {
            each.key: self._misfits[each.key] for each in asked if each.key in self._misfits
        }
        marks = self._marks
        marks.commands = {each.kind: each for each in sorted(good, key=_strictness)}
        marks.last |= marks.commands
        wanted = _interference(marks.commands)
        if decided:
            marks.want(wanted, at)
        elif marks.commands:
            left = marks.wanted or _owned(self._runner.seen_interference())
            marks.want(_joined(wanted, left), at)

    def _misfit(self, command: Command, at: Micros) -> bool:
        if not (detail := _refuse_mark(command)):
            return False
        if command.key not in self._misfits:
            state = CommandState.IMPOSSIBLE
            self._misfits[command.key] = CommandProgress(command, state, at, detail)
            self._tell(command, state, detail, undone=False)
        return True

    def _run_marks(self) -> bool:
        """Whether the Node was written, or that was tried."""
        with self._changed:
            marks = self._marks
            seen = self._runner.seen_interference()
            due, wanted = marks.find_due(seen), marks.wanted
            if due is None or due > self._clock() or wanted is None:
                return False
            because = marks.because()
            undone = marks.find_undone(wanted, marks.settled or _owned(seen))
        attempt = self._runner.mark_node(wanted, because)
        with self._changed:
            self._settle_marks(wanted, attempt, undone)
        return True

    def _settle_marks(
        self, wanted: NodeInterference, attempt: CommandAttempt, undone: tuple[Command, ...]
    ) -> None:
        marks = self._marks
        is_done = attempt.state is CommandState.DONE
        is_news = (marks.state, marks.detail) != (attempt.state, attempt.detail)
        if is_done:
            is_news = marks.settled != wanted
            marks.settled = wanted
        if marks.wanted == wanted:
            marks.state, marks.detail = attempt.state, attempt.detail
            marks.due = self._next_write(attempt)
        if not is_news:
            return
        for command in marks.commands.values():
            self._tell(command, attempt.state, attempt.detail, undone=False)
        for command in undone:
            self._tell(command, attempt.state, attempt.detail, undone=True)

    def _next_write(self, attempt: CommandAttempt) -> Micros | None:
        """Should the Node not be as wanted by then: another writer may take our taint away."""
        if attempt.state is CommandState.IMPOSSIBLE:
            return None
        if attempt.state is CommandState.DONE:
            self._marks.pace.reset()
            return Micros(self._clock() + SETTLE)
        return self._after(self._marks.pace.after_failure(attempt.again_after))


def _refuse_eviction(command: Command, pod: Workload | None) -> str:
    """Why this pod is never evicted, whatever a policy says; empty where it may be."""
    if not command.uid:
        return "a pod without a uid could be another one by the time it is evicted"
    if pod is not None and pod.protected:
        return f"the pod is protected: {pod.protected}"
    if pod is not None and pod.terminating:
        return "the pod is terminating already"
    return ""


def _refuse_mark(command: Command) -> str:
    """Why this taint or condition is never set; empty where it may be."""
    if command.kind is CommandKind.TAINT:
        if command.target != TAINT:
            return f"the agent may set the taint {TAINT} only"
        if command.value and command.value not in EFFECTS:
            return f"a taint's effect is one of {', '.join(EFFECTS)}, not {command.value!r}"
        return ""
    if command.target != CONDITION:
        return f"the agent may set the condition {CONDITION} only"
    if command.value and command.value not in STATUSES:
        return f"a condition is one of {', '.join(STATUSES)}, not {command.value!r}"
    return ""


def _strictness(command: Command) -> bool:
    """Of two that ask for the same taint or condition the stricter one comes last, and counts."""
    is_weak = command.value in ("", PREFER_NO_SCHEDULE)
    return not is_weak if command.kind is CommandKind.TAINT else command.value != STATUSES[1]


def _interference(commands: Mapping[CommandKind, Command]) -> NodeInterference:
    taint, condition = commands.get(CommandKind.TAINT), commands.get(CommandKind.CONDITION)
    return NodeInterference(
        (taint.value or PREFER_NO_SCHEDULE) if taint else "",
        (condition.value or STATUSES[0]) if condition else "",
    )


def _joined(one: NodeInterference, other: NodeInterference) -> NodeInterference:
    return NodeInterference(one.effect or other.effect, one.status or other.status)


def _owned(seen: SeenInterference | None) -> NodeInterference:
    """What this agent, or its earlier run, set."""
    if seen is None:
        return NO_INTERFERENCE
    return NodeInterference(
        seen.shown.effect if seen.owns_taint else "",
        seen.shown.status if seen.owns_condition else "",
    )
