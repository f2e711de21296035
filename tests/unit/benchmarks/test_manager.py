"""How the manager's benchmark counts writes."""

from benchmarks.manager import ObjectWrite, count_writes
from slackwater.manager.predictor.tasks import PredictionTask

WINDOW = 600
TASKS = {name: PredictionTask(name, name, 1, WINDOW, ()) for name in ("a", "b", "c")}
SINCE = 1_700_000_123.0
UNTIL = SINCE + WINDOW


def next_place(name: str) -> float:
    return TASKS[name].last_place(SINCE + WINDOW)


def test_every_node_has_one_place_in_a_window() -> None:
    for task in TASKS.values():
        places = {task.last_place(SINCE + second) for second in range(1, WINDOW + 1)}
        assert sum(SINCE < each <= UNTIL for each in places) == 1


def test_a_write_counts_for_the_place_before_it_however_late() -> None:
    writes = [ObjectWrite(name, next_place(name) + 8) for name in TASKS]
    assert count_writes(writes, TASKS, SINCE, UNTIL).total() == 3
    # of the place before, written late: another window's
    before = [ObjectWrite(name, next_place(name) - WINDOW + 8) for name in TASKS]
    assert count_writes([*before, *writes], TASKS, SINCE, UNTIL).total() == 3
    after = [ObjectWrite(name, next_place(name) + WINDOW) for name in TASKS]
    assert count_writes([*writes, *after], TASKS, SINCE, UNTIL).total() == 3


def test_two_writes_of_one_place_are_seen() -> None:
    twice = [ObjectWrite("a", next_place("a") + late) for late in (5, 300)]
    assert list(count_writes(twice, TASKS, SINCE, UNTIL).values()) == [2]


def test_a_write_of_anything_else_counts() -> None:
    odd = [ObjectWrite("odd", SINCE + 1), ObjectWrite("odd", UNTIL + 1)]
    assert count_writes(odd, TASKS, SINCE, UNTIL).total() == 1
