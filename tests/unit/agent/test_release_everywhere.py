"""A release of the whole cluster: asked for by a word in the ConfigMap, answered with the same word
in the Node's report, and gone with the ConfigMap. Nothing of it is noted on the node."""

from pathlib import Path

import msgspec
import pytest

from slackwater.agent.pause import RELEASED_BY_HAND, RELEASED_EVERYWHERE
from slackwater.agent.pause_file import PauseFile
from slackwater.agent.program import Agent
from slackwater.agent.shared_state import view_of
from slackwater.contract.node_report import read_report
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Change, Outcome, Result
from slackwater.record.agent_view import ClusterLink
from slackwater.record.journal import TickRecord
from slackwater.record.node_status import node_report, node_status_patch
from tests.unit.agent.test_program import OURS, Bench, at
from tests.unit.policies.nodes import BESTEFFORT, FREE, held


class AskedBench(Bench):
    """An agent, and the word of its ConfigMap."""

    def __init__(self, pause_file: PauseFile | None = None) -> None:
        super().__init__()
        self.word: str | None = ""
        self.refuses = False
        self.link = ClusterLink()
        self.shared.link = lambda _at: self.link
        dependencies = msgspec.structs.replace(
            self.agent._dependencies, pause_file=pause_file, release_asked=lambda: self.word
        )
        self.agent = Agent(dependencies, self.lines.append)
        assert self.agent.start(at(0)) == ()

    def release(self) -> list[Outcome]:
        super().release()
        change = Change(BESTEFFORT, QUOTA, OURS, FREE)
        return [Outcome(change, Result.REFUSED, "busy")] if self.refuses else []

    def decides(self, second: float) -> bool:
        found = self.agent.once(at(second))
        return isinstance(found, TickRecord) and bool(found.inputs.policies)

    def answer(self, second: float) -> str | None:
        return node_report(view_of(self.shared, at(second))).released


def test_a_word_releases_once_and_is_answered() -> None:
    bench = AskedBench()
    assert bench.decides(1)
    assert bench.answer(1) is None
    bench.word = "w1"
    assert not bench.decides(2)
    assert not bench.decides(20)
    assert bench.released == 1
    assert bench.shared.last_round.paused == RELEASED_EVERYWHERE
    assert bench.answer(20) == "w1"
    condition = node_status_patch(view_of(bench.shared, at(20))).condition
    assert (condition.status, condition.reason) == ("False", "Released")


def test_a_configmap_that_goes_ends_nothing() -> None:
    """An uninstallation removes it a moment before the agents."""
    bench = AskedBench()
    bench.word = "w1"
    bench.agent.once(at(1))
    bench.word = None
    assert not bench.decides(2)
    assert not bench.decides(100)
    assert (bench.released, bench.answer(100)) == (1, "w1")


def test_an_empty_word_ends_it_and_another_word_asks_anew() -> None:
    bench = AskedBench()
    bench.word = "w1"
    bench.agent.once(at(1))
    bench.word = "w2"
    bench.agent.once(at(2))
    assert (bench.released, bench.answer(2)) == (2, "w2")
    bench.word = ""
    assert bench.decides(3)
    assert (bench.answer(3), bench.told("resumed")) == (None, ["told to"])


def test_nothing_is_answered_before_all_is_back() -> None:
    bench = AskedBench()
    bench.word, bench.refuses = "w1", True
    bench.agent.once(at(1))
    assert bench.answer(1) is None
    bench.agent.once(at(2))
    assert bench.released == 1, "not at every tick"
    bench.refuses = False
    bench.agent.once(at(7))
    assert (bench.released, bench.answer(7)) == (2, "w1")
    bench.kept = (held(BESTEFFORT, FREE, OURS),)
    bench.result = Result.REFUSED
    bench.agent.once(at(8))
    assert bench.answer(8) is None, "a value is held"


def test_what_the_api_server_still_shows_is_waited_for() -> None:
    bench = AskedBench()
    bench.word, bench.link = "w1", ClusterLink(left_there="its taint")
    bench.agent.once(at(1))
    assert bench.answer(1) is None
    bench.link = ClusterLink()
    assert bench.answer(1) == "w1"


def test_an_agent_without_objects_releases_what_an_earlier_run_left() -> None:
    bench = AskedBench()
    bench.objects, bench.word = Gap("waiting"), "w1"
    bench.agent.once(at(1))
    assert (bench.released, bench.answer(1)) == (1, "w1")


def test_it_leaves_no_note_for_the_next_installation(tmp_path: Path) -> None:
    bench = AskedBench(PauseFile((str(tmp_path),)))
    bench.word = "w1"
    bench.agent.once(at(1))
    assert list(tmp_path.iterdir()) == []
    assert AskedBench(PauseFile((str(tmp_path),))).decides(1)


def test_a_release_by_hand_outlives_it(tmp_path: Path) -> None:
    PauseFile((str(tmp_path),)).write()
    bench = AskedBench(PauseFile((str(tmp_path),)))
    bench.word = "w1"
    bench.agent.once(at(1))
    assert bench.answer(1) == "w1"
    bench.word = ""
    assert not bench.decides(2)
    assert bench.shared.last_round.paused == RELEASED_BY_HAND
    assert bench.told("resumed") == [f"still {RELEASED_BY_HAND}"]


@pytest.mark.parametrize("word", [None, "w1"])
def test_the_answer_is_read_as_it_was_written(word: str | None) -> None:
    bench = AskedBench()
    bench.word = word
    bench.agent.once(at(1))
    written = node_report(view_of(bench.shared, at(1)))
    found = read_report(written.text())
    assert not isinstance(found, Gap)
    assert found.released == word
