"""What the agent's loop shares with other threads: its results, and their requests to it.

The loop's thread writes; the endpoint's threads read frozen values and leave requests. Only the
thread that asked for something waits for the loop, never the other way round.
"""

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.cluster_link import NO_LINK, ClusterLink
from slackwater.record.journal import Entry, Journal, TickRecord
from slackwater.record.metrics import Tally
from slackwater.record.view import View
from slackwater.runtime.health import HealthState
from slackwater.settings.agent import DEFAULTS, AgentSettings

#: How long after a request for the detail of single pods each tick still reads them.
DETAIL_PERIOD = Micros(10_000_000)
#: Rounds that may be missed before the loop counts as stalled.
_MISSED_ROUNDS = 3


class RoundState(msgspec.Struct, frozen=True):
    """How the last round left the loop. `ended` is its end, also if it saw nothing. `problems` are
    the configuration's. `blind` is why the round saw nothing; `lost_since` is set if that is
    because the kubelet's cgroup tree is missing, not because objects are. `kept` counts the values
    that stay in place while it is blind. `off` has the reason for each policy that is off."""

    ended: Micros | None = None
    problems: tuple[str, ...] = ()
    blind: str = ""
    lost_since: Micros | None = None
    paused: str = ""
    kept: int | None = None
    settings: AgentSettings = DEFAULTS
    off: Mapping[str, str] = {}

    @property
    def lost(self) -> str:
        """Why the kubelet's tree is not seen; empty if it is, or was not looked for."""
        return "" if self.lost_since is None else self.blind


class ReleaseDone(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]
    #: How many knobs could not be restored.
    left: int


def no_link(_at: Micros) -> ClusterLink:
    return NO_LINK


class SharedState:
    """Guards what crosses threads. `link` describes the connection to the cluster at a time."""

    def __init__(
        self,
        journal: Journal,
        tally: Tally,
        wake: Callable[[], None],
        version: CgroupVersion | Gap = Gap("nobody said which cgroup version this is"),  # noqa: B008
        link: Callable[[Micros], ClusterLink] = no_link,
        policies: tuple[Policy, ...] = POLICIES,
    ) -> None:
        self.policies = policies
        self.link = link
        self.version = version
        self.journal = journal
        self.tally = tally
        self.health = HealthState(Micros(0), allowed_silence(DEFAULTS))
        self._wake = wake
        self._round = RoundState()
        self._detail_until = Micros(0)
        self._detail_since = Micros(0)
        self._tick_added = threading.Condition()
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
        """From another thread: until a tick that began after the request has ended."""
        with self._tick_added:
            return self._tick_added.wait_for(self._has_detail, patience)

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


def view_of(state: SharedState, at: Micros) -> View:
    """What explanations and overviews are made from. `at` is now by the agent's clock: compared
    with the time of day it gives the clock's offset."""
    last = state.last_round
    return View(
        ticks=state.journal.ticks,
        off=last.off,
        problems=last.problems,
        blind=last.blind,
        lost=last.lost,
        paused=last.paused,
        kept=last.kept,
        offset=Micros(time.time_ns() // 1000 - at),
        version=state.version,
        changed=state.journal.changed,
        link=state.link(at),
        policies=state.policies,
    )
