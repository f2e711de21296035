"""What the agent's loop shares with other threads: its results, and their requests to it.

The loop's thread writes; the endpoint's threads read frozen values and leave requests. Only the
thread that asked for something waits for the loop, never the other way round.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

from slackwater.agent.container_start import TickBasis
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.agent_view import NO_LINK, AgentView, ClusterLink, RoundState
from slackwater.record.interception import InterceptionRecord
from slackwater.record.journal import Journal, JournalEntry, TickRecord
from slackwater.record.metrics import TickCounters
from slackwater.runtime.health import HealthState
from slackwater.settings.agent_settings import DEFAULTS, AgentSettings

#: How long after a request for the detail of single pods each tick still reads them.
DETAIL_PERIOD = Micros(10_000_000)
#: Threads that may wait for a tick at once; others leave their places to requests that need none.
MOST_WAITING = 8
#: Rounds that may be missed before the loop counts as stalled.
_MISSED_ROUNDS = 3


class ReleaseDone(msgspec.Struct, frozen=True):
    entries: tuple[JournalEntry, ...]
    #: How many knobs could not be restored.
    left: int


def no_link(_at: Micros) -> ClusterLink:
    return NO_LINK


class SharedState:
    """Guards what crosses threads. `link` describes the connection to the cluster at a time."""

    def __init__(
        self,
        journal: Journal,
        tally: TickCounters,
        wake: Callable[[], None],
        version: CgroupVersion | Gap = Gap("the cgroup version is not known"),  # noqa: B008
        link: Callable[[Micros], ClusterLink] = no_link,
        policies: tuple[Policy, ...] = POLICIES,
    ) -> None:
        self.policies = policies
        self.link = link
        self.version = version
        self.journal = journal
        self.tally = tally
        self.health = HealthState(Micros(0), allowed_silence(DEFAULTS))
        self.interception = InterceptionRecord()
        #: What the last tick decided from; None before the first one.
        self.basis: TickBasis | None = None
        self._wake = wake
        self._round = RoundState()
        self._detail_until = Micros(0)
        self._detail_since = Micros(0)
        self._tick_added = threading.Condition()
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)
        self._release_requested = threading.Event()
        self._release_finished = threading.Event()
        self._released: ReleaseDone | None = None
        self._one_release = threading.Lock()

    @property
    def last_round(self) -> RoundState:
        return self._round

    def add_tick(self, record: TickRecord) -> None:
        self.journal.keep(record)
        self.tally.add(record)
        with self._tick_added:
            self._tick_added.notify_all()

    def end_round(self, ended: RoundState) -> None:
        """Also of a round without a tick. A problem is counted when it is new."""
        if ended.blind:
            self.tally.add_blind_round()
        self.tally.add_problems(set(ended.problems).difference(self._round.problems))
        self._round = ended
        if ended.ended is not None:
            self.health.beat(ended.ended, allowed_silence(ended.settings))

    def request_detail(self, at: Micros) -> None:
        """Someone looks at single pods: every tick reads them from the next one on."""
        if not self.is_detail_requested(at):
            self._detail_since = at
        self._detail_until = Micros(at + DETAIL_PERIOD)

    def is_detail_requested(self, at: Micros) -> bool:
        return at < self._detail_until

    def wait_for_detail(self, patience: float) -> bool:
        """From another thread: until a tick that began after the request has ended. Where too many
        wait already: at once, with what is there."""
        with self.detail_place() as placed, self._tick_added:
            return self._tick_added.wait_for(self._has_detail, patience if placed else 0.0)

    @contextlib.contextmanager
    def detail_place(self) -> Iterator[bool]:
        """Whether one more may wait for a tick, inside the block."""
        placed = self._waiting.acquire(blocking=False)
        try:
            yield placed
        finally:
            if placed:
                self._waiting.release()

    def _has_detail(self) -> bool:
        latest = self.journal.latest
        return latest is not None and latest.snapshot.at > self._detail_since

    def request_release(self, patience: float) -> ReleaseDone | None:
        """From another thread: restore everything in the loop's next round. None: no round came
        in time."""
        with self._one_release:
            self._release_finished.clear()
            self._release_requested.set()
            self._wake()
            return self._released if self._release_finished.wait(patience) else None

    def is_release_requested(self) -> bool:
        return self._release_requested.is_set()

    def finish_release(self, done: ReleaseDone) -> None:
        self._release_requested.clear()
        self._released = done
        self._release_finished.set()


def allowed_silence(settings: AgentSettings) -> Micros:
    """How long a round may take before the loop counts as stalled."""
    return Micros(max(settings.stalled_after, _MISSED_ROUNDS * settings.period))


def view_of(state: SharedState, at: Micros) -> AgentView:
    """What explanations and overviews are made from. `at` is now by the agent's clock: compared
    with the time of day it gives the clock's offset."""
    return AgentView(
        **msgspec.structs.asdict(state.last_round),
        ticks=state.journal.ticks,
        offset=Micros(time.time_ns() // 1000 - at),
        version=state.version,
        last_change=state.journal.last_change,
        link=state.link(at),
        policies=state.policies,
        interception=state.interception.state,
    )
