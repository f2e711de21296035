"""How new containers come by their quotas: before their start, or with the next tick; and counts.

The thread that talks to the container runtime writes it; explain, status and metrics read it.
"""

import enum
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

import msgspec

from slackwater.model.units import Micros

#: Upper ends of the buckets of an answer's time. A container's start waits for it; 5 ms is our bar.
ANSWER_BUCKETS = (Micros(500), Micros(1_000), Micros(2_000), Micros(5_000), Micros(50_000))


class InterceptionWay(enum.Enum):
    """How a new container comes by its quota."""

    NRI = "nri"  # the runtime asks before the start
    RECONCILE = "reconcile"  # the next tick finds it


class AnswerResult(enum.Enum):
    """What became of one question of the runtime's."""

    ADJUSTED = "adjusted"
    UNCHANGED = "unchanged"  # nothing to change, or not to be decided before the start
    FAILED = "failed"  # answered by nothing: the next tick does it


class InterceptionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which way is taken, and why. `runtime` is the container runtime's name and version where it
    asks us."""

    way: InterceptionWay
    because: str
    runtime: str = ""

    def title(self) -> str:
        """For people."""
        if self.way is InterceptionWay.NRI:
            return f"NRI: {self.because}"
        return f"reconcile alone: {self.because}"


NOT_INTERCEPTED = InterceptionState(InterceptionWay.RECONCILE, "agent.interceptStarts is false")


class InterceptionCounts(msgspec.Struct, frozen=True):
    """All counts at one moment. `durations` has one count more than there are ANSWER_BUCKETS."""

    #: By the call, "create" or "update", and its result.
    answers: Mapping[tuple[str, str], int] = {}
    durations: tuple[int, ...] = (0,) * (len(ANSWER_BUCKETS) + 1)
    duration_sum: Micros = Micros(0)
    connections: int = 0


class InterceptionRecord:
    """State and counts since the agent's start. One thread writes, any may read."""

    def __init__(self, state: InterceptionState = NOT_INTERCEPTED) -> None:
        self._alone = threading.Lock()
        self.state = state
        self._answers: Counter[tuple[str, str]] = Counter()
        self._durations = [0] * (len(ANSWER_BUCKETS) + 1)
        self._duration_sum = 0
        self._connections = 0

    def add_answer(self, call: str, result: AnswerResult, took: Micros) -> None:
        with self._alone:
            self._answers[call, result.value] += 1
            self._durations[bisect_left(ANSWER_BUCKETS, took)] += 1
            self._duration_sum += took

    def add_connection(self) -> None:
        with self._alone:
            self._connections += 1

    def counts(self) -> InterceptionCounts:
        with self._alone:
            return InterceptionCounts(
                dict(self._answers),
                tuple(self._durations),
                Micros(self._duration_sum),
                self._connections,
            )
