"""What the page keeps of one agent between two looks: its last answer, and the node's recent past.

Several open pages ask the agent no more often than one. An agent that is away leaves the last
answer, with the reason.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from slackwater.model.cgroup import Tier
from slackwater.model.gap import Gap
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from slackwater.record.recording import RecordedTick
from slackwater.record.timestamps import parse_timestamp
from slackwater.ui.sources import AgentReader, NotAvailableError

#: Seconds between two questions to the agent; its own period is one.
BETWEEN_LOOKS = 0.9
#: Ten minutes of an agent's default period.
MOST_SAMPLES = 600
_CPU = "m"
_MICROS = 1_000_000


class NodeSample(msgspec.Struct, frozen=True):
    """The node at one tick, in milliCPU; None is not known. `at` is in seconds on one clock.
    `predicted` is the forecast of what cannot be sold, `measured` what it is compared with."""

    tick: int
    at: float
    used: int | None = None
    best_effort: int | None = None
    quota: int | None = None
    predicted: int | None = None
    measured: int | None = None


class AgentLook(msgspec.Struct, frozen=True):
    """The agent's last answer; `lost` is why there is no newer one, empty while there is."""

    overview: Overview
    samples: tuple[NodeSample, ...]
    lost: str = ""


class AgentWatch:
    """Guards the last answer of one agent. `clock` is in seconds."""

    def __init__(self, source: AgentReader, clock: Callable[[], float]) -> None:
        self.source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[NodeSample] = deque(maxlen=MOST_SAMPLES)
        self._last: Overview | None = None
        self._looked_at = float("-inf")
        self._lost = ""
        self._rows: Sequence[Explanation] | None = None
        self._explained_at = float("-inf")

    def look(self) -> AgentLook:
        """Raises NotAvailableError where the agent never answered."""
        with self._lock:
            if self._clock() - self._looked_at >= BETWEEN_LOOKS:
                self._ask()
                self._looked_at = self._clock()
            if self._last is None:
                raise NotAvailableError(self._lost)
            return AgentLook(self._last, tuple(self._samples), self._lost)

    def explanation(self) -> Sequence[Explanation]:
        """Of everything; the last one while the agent is away. Raises NotAvailableError where
        there never was one."""
        with self._lock:
            if self._rows is None or self._clock() - self._explained_at >= BETWEEN_LOOKS:
                try:
                    self._rows = self.source.explain("")
                except NotAvailableError:
                    if self._rows is None:
                        raise
                self._explained_at = self._clock()
            return self._rows

    def _ask(self) -> None:
        try:
            found = self.source.overview()
        except NotAvailableError as error:
            self._lost = str(error)
            return
        sample = sample_of(found)
        if self._last is None and sample:
            self._samples.extend(self._past(sample))
        elif self._last is not None and found.tick < self._last.tick:
            self._samples.clear()  # another agent, or the same started again
        self._last, self._lost = found, ""
        if sample and (not self._samples or self._samples[-1].tick < sample.tick):
            self._samples.append(sample)

    def _past(self, now: NodeSample) -> tuple[NodeSample, ...]:
        """Recorded ticks are on the agent's own clock, so the last one counts as now. An agent
        whose ticks this version cannot read has a present and no past."""
        try:
            past = tuple(samples_of(self.source.ticks().ticks))
        except NotAvailableError:
            return ()
        shift = now.at - past[-1].at
        return tuple(msgspec.structs.replace(each, at=each.at + shift) for each in past)


def samples_of(ticks: Sequence[RecordedTick]) -> Iterator[NodeSample]:
    """Of recorded ticks, on the agent's own clock."""
    for recorded in ticks:
        snapshot, story = recorded.line.snapshot, recorded.line.story
        tier = snapshot.tiers.get(Tier.BESTEFFORT)
        reading = snapshot.readings.get(tier.id) if tier else None
        quota = None if reading is None or isinstance(reading.quota, Gap) else reading.quota.milli()
        offer = next((o for told in story.told for o in told.offers if o.unit == _CPU), None)
        yield NodeSample(
            tick=snapshot.tick,
            at=snapshot.at / _MICROS,
            used=_known(snapshot.usage),
            best_effort=_known(snapshot.usage_of(tier)) if tier else None,
            quota=quota if isinstance(quota, int) else None,
            predicted=offer.predicted if offer else None,
            measured=offer.used if offer else None,
        )


def sample_of(shown: Overview) -> NodeSample | None:
    """Of an answer; None before the agent's first tick."""
    at = parse_timestamp(shown.at or "")
    if at is None:
        return None
    tier = next((row for row in shown.tiers if row.name == Tier.BESTEFFORT.value), None)
    offer = next((each for each in shown.offers if each.unit == _CPU), None)
    return NodeSample(
        tick=shown.tick,
        at=at.timestamp(),
        used=shown.node.usage,
        best_effort=tier.usage if tier else None,
        quota=tier.quota if tier and isinstance(tier.quota, int) else None,
        predicted=offer.predicted if offer else None,
        measured=offer.used if offer else None,
    )


def _known(amount: int | Gap) -> int | None:
    return None if isinstance(amount, Gap) else amount
