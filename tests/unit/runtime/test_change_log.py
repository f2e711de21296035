"""What is written each time, what only when it changes, and what is not remembered."""

import pytest

from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import ChangeLog

AT = Micros(7)


class Written:
    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.log = ChangeLog(self.entries.append)

    def effect(self, result: str, after: str = "500m") -> None:
        self.log.effect(JournalEntry(3, AT, "quota of pod1", "", after, "", result))

    def lines(self) -> list[tuple[str, str]]:
        return [(each.what, each.because or each.result) for each in self.entries]


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.mark.parametrize(
    ("results", "count"),
    [
        (["applied", "applied"], 2),
        (["refused: EINVAL", "refused: EINVAL"], 1),
        (["refused: EINVAL", "refused: EBUSY"], 2),
        (["refused: EINVAL", "applied", "refused: EINVAL"], 3),
        (["unsupported: EROFS", "unsupported: EROFS"], 1),
        (["planned", "planned"], 1),
        (["vanished", "vanished"], 2),  # another group each time: an id is never used twice
        (["refused: EINVAL", "vanished", "refused: EINVAL"], 3),
    ],
)
def test_effects(written: Written, results: list[str], count: int) -> None:
    for result in results:
        written.effect(result)
    assert len(written.entries) == count


def test_a_dry_run_writes_another_value_again(written: Written) -> None:
    for after in ("500m", "500m", "400m"):
        written.effect("planned", after)
    assert [each.after for each in written.entries] == ["500m", "400m"]


def test_a_state_is_written_when_it_changes(written: Written) -> None:
    for text in ("", "away", "away", "refused", "", ""):
        written.log.state("API server", text, AT)
        assert written.log.is_known("API server") is bool(text)
    assert written.lines() == [
        ("API server", "away"),
        ("API server", "refused"),
        ("API server", "recovered"),
    ]


def test_a_state_belongs_to_the_round(written: Written) -> None:
    written.log.round = 4
    written.log.state("lease", "away", AT, "kubernetes_error")
    assert written.entries == [
        JournalEntry(4, AT, "lease", because="away", result="kubernetes_error")
    ]


def test_a_group_of_states(written: Written) -> None:
    both = {"default/a": "bad", "default/b": "worse"}
    for states in (
        {"default/a": "bad"},
        both,
        {**both, "default/b": "other"},
        {"default/a": "bad"},
    ):
        written.log.states(states, AT)
        written.log.states(states, AT)
    written.log.states({}, AT)
    assert written.lines() == [
        ("default/a", "bad"),
        ("default/b", "worse"),
        ("default/b", "other"),
        ("default/b", "recovered"),
        ("default/a", "recovered"),
    ]


def test_pods_that_come_and_go_leave_nothing_behind(written: Written) -> None:
    for number in range(100):
        what = f"quota of pod{number}"
        written.log.effect(JournalEntry(1, AT, what, result="refused: EINVAL"))
        written.log.effect(JournalEntry(2, AT, what, result="vanished: the cgroup is gone"))
        written.log.effect(JournalEntry(2, AT, f"weight of pod{number}", result="applied"))
        written.log.states({f"default/{number}": "bad"}, AT)
    written.log.states({}, AT)
    assert written.log._written == {}
    assert len(written.entries) == 500
