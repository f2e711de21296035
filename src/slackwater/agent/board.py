"""What the loop shows to other threads, and what they ask of it.

The loop's thread writes; the endpoint's threads read frozen values and leave requests. Nothing
here waits for the loop but who asked it for something.
"""

import threading
from collections.abc import Callable, Mapping

import msgspec

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.record.cluster_link import NO_LINK, ClusterLink
from slackwater.record.journal import Entry, Journal, TickRecord
from slackwater.record.metrics import Tally
from slackwater.settings.agent import DEFAULTS, AgentSettings

#: How long after somebody looked at single pods they are still read at each tick.
WATCHED_FOR = Micros(10_000_000)


class Condition(msgspec.Struct, frozen=True):
    """The loop's own state. `ended` is the end of the last round, also of one that saw nothing.
    `problems` are the configuration's. `blind` is why the last round saw nothing; `lost_since` is
    set where that is for want of the kubelet's tree, not of objects. `kept` counts
    the values that stand while it is blind. `off` is why each policy that is off is off."""

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
        """That the kubelet's tree is not seen; empty where it is, or was not looked for."""
        return "" if self.lost_since is None else self.blind


class ReleaseDone(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]
    #: How many knobs could not be put back.
    left: int


def no_link(_at: Micros) -> ClusterLink:
    return NO_LINK


class Board:
    """Guards what crosses threads. `link` says how the ties to the cluster are at a time."""

    def __init__(
        self,
        journal: Journal,
        tally: Tally,
        wake: Callable[[], None],
        version: CgroupVersion | Gap = Gap("nobody said which cgroup version this is"),  # noqa: B008
        link: Callable[[Micros], ClusterLink] = no_link,
    ) -> None:
        self.link = link
        self.version = version
        self.journal = journal
        self.tally = tally
        self._wake = wake
        self._condition = Condition()
        self._watched_until = Micros(0)
        self._watched_since = Micros(0)
        self._shown = threading.Condition()
        self._asked = threading.Event()
        self._answered = threading.Event()
        self._answer: ReleaseDone | None = None
        self._one_asker = threading.Lock()

    @property
    def condition(self) -> Condition:
        """As the last round left it."""
        return self._condition

    def show(self, record: TickRecord) -> None:
        self.journal.keep(record)
        self.tally.add(record)
        with self._shown:
            self._shown.notify_all()

    def end_round(self, condition: Condition) -> None:
        """The round's end, also of one that was no tick. A problem counts when it is new."""
        if condition.blind:
            self.tally.add_blind_round()
        self.tally.add_problems(set(condition.problems).difference(self._condition.problems))
        self._condition = condition

    def watch(self, at: Micros) -> None:
        """Somebody looks at single pods: they are in every tick from the next one on."""
        if not self.is_watched(at):
            self._watched_since = at
        self._watched_until = Micros(at + WATCHED_FOR)

    def wait_for_pods(self, patience: float) -> bool:
        """From another thread: until a tick began after somebody began to look."""
        with self._shown:
            return self._shown.wait_for(self._has_pods, patience)

    def _has_pods(self) -> bool:
        latest = self.journal.latest
        return latest is not None and latest.snapshot.at > self._watched_since

    def is_watched(self, at: Micros) -> bool:
        return at < self._watched_until

    def ask_release(self, patience: float) -> ReleaseDone | None:
        """From another thread: everything back, at the loop's next round. None: it did not come."""
        with self._one_asker:
            self._answered.clear()
            self._asked.set()
            self._wake()
            return self._answer if self._answered.wait(patience) else None

    def release_is_asked(self) -> bool:
        return self._asked.is_set()

    def answer_release(self, done: ReleaseDone) -> None:
        self._asked.clear()
        self._answer = done
        self._answered.set()
