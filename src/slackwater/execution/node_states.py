"""What is wanted of the agent's own Node: its taint and condition, and its extended resources.

These are states: what policies ask for is compared with what the Node shows, and only a difference
is written, with back-off. What nobody asks for any more is removed. Before the first decision
nothing is, and what an earlier run left stays.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

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
from slackwater.contract.node_offer import NO_OFFER, OFFERABLE, NodeOffer, SeenOffer
from slackwater.http.errors import Backoff
from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.plan import CommandOutcome, CommandProgress, CommandState
from slackwater.model.units import Micros

_SECOND = 1_000_000
#: After a write the informer shows the Node as it was for a moment.
SETTLE = Micros(5 * _SECOND)
_NOBODY_ASKS = Because("commands", "nobody asks for it", "")
#: What is wanted, and what the Node shows of it.
_Wanted = TypeVar("_Wanted")
_Seen = TypeVar("_Seen")
Tell = Callable[[CommandOutcome], None]


class CommandAttempt(msgspec.Struct, frozen=True):
    """How one attempt ended. `gone`: the pod is not there any more. `again_after` is in seconds: at
    least that long a refused command waits, and after that a running one is looked at again."""

    state: CommandState
    detail: str = ""
    gone: bool = False
    again_after: float | None = None


class NodeRunner(Protocol):
    """Changes the Node; may wait for the network. What it shows is known without asking; None where
    nobody knows."""

    def mark_node(self, wanted: NodeInterference, because: Because, /) -> CommandAttempt: ...

    def seen_interference(self) -> SeenInterference | None: ...

    def offer_resources(self, wanted: NodeOffer, /) -> CommandAttempt: ...

    def seen_offer(self) -> SeenOffer | None: ...


class WantedNodeState(ABC, Generic[_Wanted, _Seen]):
    """One part of the Node between attempts to write it. Its owner lets one thread in at a time,
    but for `write`."""

    kinds: frozenset[CommandKind]
    nothing: _Wanted

    def __init__(
        self, runner: NodeRunner, clock: Callable[[], Micros], pace: Backoff, tell: Tell
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._pace = pace
        self._tell_outcome = tell
        self._commands: dict[str, Command] = {}
        #: The last of each, asked for or not any more.
        self._last: dict[str, Command] = {}
        self._misfits: dict[str, CommandProgress] = {}
        self._wanted: _Wanted | None = None
        #: What the Node was made, or found to be.
        self._settled: _Wanted | None = None
        self._state = CommandState.DONE
        self._detail = ""
        self._since = Micros(0)
        #: When the Node is next written if it is not as wanted; None: not before that changes.
        self._due: Micros | None = None

    @abstractmethod
    def seen(self) -> _Seen | None: ...

    @abstractmethod
    def differs(self, seen: _Seen, wanted: _Wanted) -> bool: ...

    @abstractmethod
    def owned(self, seen: _Seen) -> _Wanted:
        """What this agent, or its earlier run, set."""

    @abstractmethod
    def refuse(self, command: Command) -> str:
        """Why this is never carried out; empty where it may be."""

    @abstractmethod
    def choose(self, commands: Sequence[Command]) -> dict[str, Command]:
        """The commands that count, by what they are about."""

    @abstractmethod
    def combine(self, commands: dict[str, Command], left: _Wanted) -> _Wanted:
        """What they ask for together; what they do not name is as `left` has it."""

    @abstractmethod
    def values(self, state: _Wanted) -> Mapping[str, str]:
        """What it has, by target, as commands state it."""

    @abstractmethod
    def removed(self, wanted: _Wanted, before: _Wanted) -> Iterator[tuple[CommandKind, str]]:
        """Kind and target of what goes."""

    def because(self, _commands: dict[str, Command]) -> Because:
        """What is told with a write, where anything is."""
        return _NOBODY_ASKS

    @abstractmethod
    def write(self, wanted: _Wanted, because: Because) -> CommandAttempt: ...

    def take(self, commands: Sequence[Command], at: Micros, *, decided: bool) -> None:
        """Everything that is asked for now. Before each policy has decided once, nothing goes."""
        asked = [each for each in commands if each.kind in self.kinds]
        good = [each for each in asked if not self._misfit(each, at)]
        self._misfits = {
            each.key: self._misfits[each.key] for each in asked if each.key in self._misfits
        }
        self._commands = self.choose(good)
        self._last |= self._commands
        if decided:
            self._want(self.combine(self._commands, self.nothing), at)
        elif self._commands:
            left = self._owned_now() if self._wanted is None else self._wanted
            self._want(self.combine(self._commands, left), at)

    def progress(self) -> Iterator[CommandProgress]:
        if self._state is not CommandState.DONE:
            retry = self._due if self._state is CommandState.REFUSED else None
            for command in self._commands.values():
                yield CommandProgress(
                    command, self._state, self._since, self._detail, retry or Micros(0)
                )
        yield from self._misfits.values()

    def next_due(self) -> Micros | None:
        """When the Node has to be written; None where it is as wanted, as far as is known."""
        if self._wanted is None:
            return None
        seen = self.seen()
        if seen is not None and not self.differs(seen, self._wanted):
            self._settled, self._state, self._detail = self._wanted, CommandState.DONE, ""
            return None
        return None if seen is None and self._settled == self._wanted else self._due

    def is_released(self) -> bool:
        return self._wanted == self.nothing

    def is_gone(self) -> bool:
        """Whether the Node shows nothing of ours either."""
        seen = self.seen()
        gone = (
            self._settled == self.nothing if seen is None else not self.differs(seen, self.nothing)
        )
        return self.is_released() and gone

    def begin(self) -> "NodeWrite[_Wanted] | None":
        """What has to be written now; None where nothing has."""
        due, wanted = self.next_due(), self._wanted
        if due is None or due > self._clock() or wanted is None:
            return None
        before = self._owned_now() if self._settled is None else self._settled
        undone = tuple(
            self._last.get(target, Command(target, kind, target, _NOBODY_ASKS, ""))
            for kind, target in self.removed(wanted, before)
        )
        return NodeWrite(wanted, self.because(self._commands), undone, self.values(before))

    def settle(self, written: "NodeWrite[_Wanted]", attempt: CommandAttempt) -> None:
        is_done = attempt.state is CommandState.DONE
        is_news = (self._state, self._detail) != (attempt.state, attempt.detail)
        if is_done:
            is_news = self._settled != written.wanted
            self._settled = written.wanted
        if self._wanted == written.wanted:
            self._state, self._detail = attempt.state, attempt.detail
            self._due = self._next_write(attempt)
        if not is_news:
            return
        after = self.values(written.wanted)
        for target, command in self._commands.items():
            before = written.before.get(target, "")
            if before != after.get(target):
                self._tell(command, attempt, before)
        for command in written.undone:
            before = written.before.get(command.target, "")
            self._tell(command, attempt, before, undone=True)

    def _owned_now(self) -> _Wanted:
        seen = self.seen()
        return self.nothing if seen is None else self.owned(seen)

    def _want(self, wanted: _Wanted, at: Micros) -> None:
        if wanted != self._wanted:
            self._wanted, self._since, self._due = wanted, at, at
            self._state, self._detail = CommandState.QUEUED, ""
            self._pace.reset()

    def _misfit(self, command: Command, at: Micros) -> bool:
        if not (detail := self.refuse(command)):
            return False
        if command.key not in self._misfits:
            state = CommandState.IMPOSSIBLE
            self._misfits[command.key] = CommandProgress(command, state, at, detail)
            self._tell(command, CommandAttempt(state, detail))
        return True

    def _next_write(self, attempt: CommandAttempt) -> Micros | None:
        """Should the Node not be as wanted by then: another writer may undo ours."""
        if attempt.state is CommandState.IMPOSSIBLE:
            return None
        if attempt.state is CommandState.DONE:
            self._pace.reset()
            return Micros(self._clock() + SETTLE)
        wait = self._pace.after_failure(attempt.again_after)
        return Micros(self._clock() + int(wait * _SECOND))

    def _tell(
        self, command: Command, attempt: CommandAttempt, before: str = "", *, undone: bool = False
    ) -> None:
        self._tell_outcome(
            CommandOutcome(command, attempt.state, self._clock(), attempt.detail, undone, before)
        )


class NodeWrite(msgspec.Struct, Generic[_Wanted], frozen=True):
    """What is about to be written, why, whose effect goes with it, and what was there before, by
    target."""

    wanted: _Wanted
    because: Because
    undone: tuple[Command, ...] = ()
    before: Mapping[str, str] = {}


class NodeMarks(WantedNodeState[NodeInterference, SeenInterference]):
    """Taint and condition."""

    kinds = frozenset({CommandKind.TAINT, CommandKind.CONDITION})
    nothing = NO_INTERFERENCE

    def seen(self) -> SeenInterference | None:
        return self._runner.seen_interference()

    def differs(self, seen: SeenInterference, wanted: NodeInterference) -> bool:
        return seen.differs(wanted)

    def owned(self, seen: SeenInterference) -> NodeInterference:
        return NodeInterference(
            seen.shown.effect if seen.owns_taint else "",
            seen.shown.status if seen.owns_condition else "",
        )

    def refuse(self, command: Command) -> str:
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

    def choose(self, commands: Sequence[Command]) -> dict[str, Command]:
        return {each.target: each for each in sorted(commands, key=_strictness)}

    def because(self, commands: dict[str, Command]) -> Because:
        """The condition's, which has a message."""
        command = commands.get(CONDITION) or commands.get(TAINT)
        return command.because if command else _NOBODY_ASKS

    def combine(self, commands: dict[str, Command], left: NodeInterference) -> NodeInterference:
        taint, condition = commands.get(TAINT), commands.get(CONDITION)
        return NodeInterference(
            (taint.value or PREFER_NO_SCHEDULE) if taint else left.effect,
            (condition.value or STATUSES[0]) if condition else left.status,
        )

    def values(self, state: NodeInterference) -> Mapping[str, str]:
        return {TAINT: state.effect, CONDITION: state.status}

    def removed(
        self, wanted: NodeInterference, before: NodeInterference
    ) -> Iterator[tuple[CommandKind, str]]:
        if before.effect and not wanted.effect:
            yield CommandKind.TAINT, TAINT
        if before.status and not wanted.status:
            yield CommandKind.CONDITION, CONDITION

    def write(self, wanted: NodeInterference, because: Because) -> CommandAttempt:
        return self._runner.mark_node(wanted, because)


def _strictness(command: Command) -> bool:
    """Of two that ask for the same taint or condition the stricter one comes last, and counts."""
    is_weak = command.value in ("", PREFER_NO_SCHEDULE)
    return not is_weak if command.kind is CommandKind.TAINT else command.value != STATUSES[1]


class NodeOffers(WantedNodeState[NodeOffer, SeenOffer]):
    """Extended resources."""

    kinds = frozenset({CommandKind.NODE_RESOURCE})
    nothing = NO_OFFER

    def seen(self) -> SeenOffer | None:
        return self._runner.seen_offer()

    def differs(self, seen: SeenOffer, wanted: NodeOffer) -> bool:
        return seen.differs(wanted)

    def owned(self, seen: SeenOffer) -> NodeOffer:
        return seen.of_ours()

    def refuse(self, command: Command) -> str:
        if command.target not in OFFERABLE:
            return f"the agent may offer {', '.join(OFFERABLE)} only"
        if not command.value.isdecimal():
            return f"an extended resource is a whole number from 0 on, not {command.value!r}"
        return ""

    def choose(self, commands: Sequence[Command]) -> dict[str, Command]:
        """Of two that offer the same resource the smaller amount counts."""
        ordered = sorted(commands, key=lambda each: (each.target, -int(each.value)))
        return {each.target: each for each in ordered}

    def combine(self, commands: dict[str, Command], left: NodeOffer) -> NodeOffer:
        asked = {target: int(command.value) for target, command in commands.items()}
        return NodeOffer({**left.amounts, **asked})

    def values(self, state: NodeOffer) -> Mapping[str, str]:
        return {name: str(amount) for name, amount in state.amounts.items()}

    def removed(self, wanted: NodeOffer, before: NodeOffer) -> Iterator[tuple[CommandKind, str]]:
        for name in before.amounts.keys() - wanted.amounts.keys():
            yield CommandKind.NODE_RESOURCE, name

    def write(self, wanted: NodeOffer, _because: Because) -> CommandAttempt:
        return self._runner.offer_resources(wanted)
