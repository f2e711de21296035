"""The recent past of one agent: from its ticks, then from its answers."""

import msgspec

from slackwater.record.offers import OfferRow
from slackwater.record.overview import NodeOverview, Overview, UsageRow
from slackwater.ui.agent_watch import MOST_SAMPLES, AgentWatch, sample_of
from tests.unit.ui.stated_sources import StatedAgent, short_recording

FIRST = Overview(tick=100, at="2026-01-01T12:00:00Z", node=NodeOverview(usage=500))


def later(tick: int) -> Overview:
    at = f"2026-01-01T12:{tick // 60 % 60:02}:{tick % 60:02}Z"
    return msgspec.structs.replace(FIRST, tick=tick, at=at)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_the_past_ends_where_the_present_begins() -> None:
    agent = StatedAgent(FIRST)
    agent.recording = short_recording()
    samples = AgentWatch(agent, Clock()).look().samples
    assert len(samples) == 5
    assert samples[-2].at == samples[-1].at
    assert [each.at for each in samples] == sorted(each.at for each in samples)
    assert samples[0].used is None


def test_an_agent_without_ticks_has_a_present() -> None:
    assert len(AgentWatch(StatedAgent(FIRST), Clock()).look().samples) == 1


def test_each_tick_is_kept_once_and_not_for_ever() -> None:
    agent = StatedAgent(FIRST)
    watch = AgentWatch(agent, Clock())
    for tick in range(101, 101 + MOST_SAMPLES + 50):
        agent.shown = later(tick)
        watch.look()
        watch.look()
    samples = watch.look().samples
    assert len(samples) == MOST_SAMPLES
    assert len({each.tick for each in samples}) == MOST_SAMPLES


def test_an_agent_that_started_again_begins_anew() -> None:
    agent = StatedAgent(FIRST)
    watch = AgentWatch(agent, Clock())
    watch.look()
    agent.shown = later(1)
    assert [each.tick for each in watch.look().samples] == [1]


def test_what_a_sample_takes_of_an_answer() -> None:
    assert sample_of(Overview()) is None
    tier = UsageRow("besteffort", "tier", "besteffort", usage=300, quota="unlimited")
    memory = OfferRow("m", "B", 1, 1, 1, 0, 1, 0, 100, 1, 0, 0, 1, "", 1, 1, 1, 0)
    cpu = msgspec.structs.replace(memory, resource="c", unit="m", used=700, predicted=900)
    sample = sample_of(msgspec.structs.replace(FIRST, tiers=(tier,), offers=(memory, cpu)))
    assert sample is not None
    assert (sample.best_effort, sample.quota) == (300, None)
    assert (sample.measured, sample.predicted) == (700, 900)
