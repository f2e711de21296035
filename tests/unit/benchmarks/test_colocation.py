"""What the rounds of benchmarks/colocation.py say together, and when a goal counts as reached."""

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import colocation
from benchmarks._colocation import (
    ENOUGH,
    Round,
    elastic_goals,
    goals,
    of,
    quiet,
    round_of,
    spread,
)
from benchmarks.colocation import (
    Plan,
    describe,
    goal_line,
    read_plan,
    report,
    round_line,
    run,
    table,
)
from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_environment import DemoEnvironment
from slackwater.demo.demo_plan import (
    ALONE,
    CALM,
    COLOCATION,
    ELASTIC,
    KUBELET,
    SHARE,
    BatchControl,
    DemoPhase,
)
from slackwater.demo.demo_report import NOISY
from slackwater.demo.measurements import CpuUse, Noise, PhaseMeasurement, PhaseSample
from slackwater.model.cgroup import CgroupMounts
from tests.unit.demo.examples import MACHINE, answers, measured

MANY = 10


def one(phase: str, number: int = 1, **values: float) -> Round:
    base = Round(number, phase, 4.0, 8.0, 12.0, 100, 0, 1.4, 0.93, 0.95, 0.0, 0.01)
    return msgspec.structs.replace(base, **values)


def rounds(count: int = MANY, **ours: float) -> list[Round]:
    """Every row in every round; Slackwater's as told."""
    return [
        one(phase.name, number, **(ours if phase == SHARE else {}))
        for number in range(1, count + 1)
        for phase in COLOCATION
    ]


def reached(found: Sequence[Round]) -> list[bool | None]:
    return [goal.reached for goal in goals(found)]


def test_a_round_of_what_was_measured() -> None:
    found = round_of(3, measured(KUBELET, 5.0, 1.2), 2)
    assert found is not None
    assert (found.number, found.phase, found.requests, found.unanswered) == (3, "kubelet", 100, 0)
    assert (found.p50, found.p90, found.p99) == (5, 5, 10)
    assert found.utilisation == pytest.approx(0.85)
    assert found.idle_used == pytest.approx(1.2 / 1.5)


def test_a_round_without_an_answer_is_none() -> None:
    empty = msgspec.structs.replace(measured(KUBELET, 5.0, 1.2), answers=())
    assert round_of(1, empty, 2) is None


def test_idle_cpu_counts_in_the_calm_part_alone() -> None:
    calm, busy = CpuUse(0.2, 1.7, 0.0, 0.1), CpuUse(0.6, 0.1, 0.0, 1.3)
    samples = tuple(
        PhaseSample(float(n), n + 1.0, calm if n + 1 <= 10 * CALM.share else busy)
        for n in range(10)
    )
    found = round_of(
        1, PhaseMeasurement(SHARE, 10.0, busy, samples, answers(5.0), Noise(0.0, 0.0)), 2
    )
    assert found is not None
    assert found.idle_used == pytest.approx(1.7 / 1.8)


def test_without_a_hog_there_is_no_use_of_idle_cpu() -> None:
    found = round_of(1, measured(ALONE, 5.0, 0.0), 2)
    assert found is not None
    assert found.idle_used is None


@pytest.mark.parametrize(
    ("steal", "foreign", "noisy"),
    [(0.0, 0.0, False), (NOISY, NOISY, False), (NOISY + 0.01, 0.0, True), (0.0, 1.0, True)],
)
def test_noisy_rounds(steal: float, foreign: float, noisy: bool) -> None:
    found = one("alone", steal=steal, foreign=foreign)
    assert found.is_noisy() == noisy
    assert quiet([found]) == ([] if noisy else [found])
    assert ("noisy" in round_line(found)) == noisy


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers())
def test_a_spread_holds_its_median_whatever_the_order(values: list[float], seed: int) -> None:
    found = spread(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    random.Random(seed).shuffle(values)  # noqa: S311
    assert spread(values) == found


def test_a_row_without_rounds_has_no_spread() -> None:
    assert of([], "alone", lambda r: r.p90) is None


def test_all_goals_reached() -> None:
    assert reached(rounds()) == [True, True, True, True]


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ({"p90": 8.0 * 1.15}, [True, True, False, True]),
        ({"p90": 8.0 * 1.16}, [False, True, False, True]),
        ({"utilisation": 0.84}, [True, False, True, True]),
        ({"idle_used": 0.89}, [True, True, True, False]),
        ({"p90": 6.0}, [True, True, True, True]),
    ],
)
def test_each_goal_can_be_missed(ours: dict[str, float], expected: list[bool]) -> None:
    assert reached(rounds(MANY, **ours)) == expected


@pytest.mark.parametrize(
    ("count", "p90", "expected"), [(MANY, 9.2, True), (MANY, 9.3, False), (ENOUGH - 1, 9.0, None)]
)
def test_elastic_pods_stay_below_the_service(count: int, p90: float, expected: bool | None) -> None:
    found = [
        msgspec.structs.replace(each, p90=p90) if each.phase == ELASTIC.name else each
        for each in rounds(count)
    ]
    assert [goal.reached for goal in elastic_goals(found)] == [expected]
    assert elastic_goals([])[0].reached is None


def test_some_rows_alone() -> None:
    assert read_plan(["--only", "elastic,alone"]).rows == (ALONE, ELASTIC)
    assert read_plan(["--quick"]).rows == COLOCATION
    with pytest.raises(SystemExit):
        read_plan(["--only", "nonsense"])


def test_one_bad_round_misses_the_goal_that_holds_in_every_round() -> None:
    found = rounds()
    found[-1] = one(SHARE.name, MANY, idle_used=0.5)
    assert reached(found) == [True, True, True, False]


def test_the_kubelets_spread_is_the_noise() -> None:
    found = [
        msgspec.structs.replace(each, p90=8.0 + each.number % 4)
        if each.phase == KUBELET.name
        else each
        for each in rounds(p90=9.1)
    ]
    assert reached(found) == [True, True, True, True]


@pytest.mark.parametrize("count", [1, ENOUGH - 1])
def test_too_few_rounds_decide_nothing(count: int) -> None:
    assert reached(rounds(count)) == [None] * 4


def test_no_rounds_decide_nothing() -> None:
    assert reached([]) == [None]
    assert "too few" in goal_line(goals([])[0])


def test_the_table_has_every_row() -> None:
    lines = table(rounds())
    assert len(lines) == 1 + len(COLOCATION)
    for line, phase in zip(lines[1:], COLOCATION, strict=True):
        assert line.startswith(phase.title)
        assert line.split()[-3:] == ["1.40", "93", str(MANY)]
    assert "no rounds" in table([one("alone")])[-1]


def test_noisy_rounds_are_shown_and_not_dropped_silently() -> None:
    noisy = rounds()
    noisy[0] = msgspec.structs.replace(noisy[0], foreign=0.9, p90=500.0)
    said = report(noisy)
    assert f"1 of {len(noisy)} were noisy (steal or foreign work over 0.15 CPUs)." in said
    both = [line for line in said if line.startswith(ALONE.title)]
    assert [line.split()[-1] for line in both] == [str(MANY), str(MANY - 1)]
    assert "No round was noisy." in report(rounds())


def test_a_missed_goal_is_printed_as_missed() -> None:
    said = report(rounds(p90=80.0))
    assert "p90 at most 1.15× alone: 10.00×: MISSED" in said
    assert any(line.endswith(": reached") for line in said)


@pytest.mark.parametrize(
    ("arguments", "count", "seconds"),
    [([], 12, 8.0), (["--quick"], 2, 3.0), (["--rounds", "30", "--seconds", "6"], 30, 6.0)],
)
def test_the_plan(arguments: list[str], count: int, seconds: float) -> None:
    found = read_plan(arguments)
    assert (found.rounds, found.seconds, found.json) == (count, seconds, "")


class FakeStage:
    """Notes what is run; cpu.idle is not in this kernel."""

    cost = 0.003

    def __init__(self) -> None:
        self.runs: list[tuple[str, int]] = []

    def run(self, phase: DemoPhase, seconds: float, _watch: object, seed: int) -> PhaseMeasurement:
        assert seconds == 3.0
        if phase.control is BatchControl.IDLE:
            raise FileNotFoundError(2, "No such file or directory", "cpu.idle")
        self.runs.append((phase.name, seed))
        return measured(phase, 5.0, 0.0 if phase == ALONE else 1.2)


def test_every_round_has_every_row_in_an_order_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = FakeStage()
    found = run(cast("DemoEnvironment", stage), Plan(6, 3.0, ""), 2)
    orders = [[name for name, seed in stage.runs if seed == number] for number in range(1, 7)]
    wanted = sorted(phase.name for phase in COLOCATION if phase.control is not BatchControl.IDLE)
    assert [sorted(order) for order in orders] == [wanted] * 6
    assert len({tuple(order) for order in orders}) > 1
    assert len(found) == 6 * len(wanted)
    assert capsys.readouterr().out.count("cannot be run here: No such file or directory") == 6


def test_the_machine_is_described() -> None:
    said = describe(MACHINE, 0.0029, Plan(12, 8.0, ""))
    assert said.startswith("Some CPU, 2 CPUs, Linux 6.12.0, cgroup v2; 12 rounds of 8 s; ")
    assert "one request costs 2.9 ms of CPU" in said


def test_without_cgroups_it_cannot_measure_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise CannotBuildTreeError("no cgroups can be made at /x: Permission denied")

    monkeypatch.setattr(colocation, "find_cgroup_mounts", refuse)
    monkeypatch.setattr(sys, "argv", ["colocation.py", "--quick"])
    assert colocation.main() == 1
    assert capsys.readouterr().err == (
        "colocation: no cgroups can be made at /x: Permission denied\n"
    )


def test_a_whole_run_is_printed_and_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @contextlib.contextmanager
    def opened(*_: object) -> Iterator[FakeStage]:
        yield FakeStage()

    monkeypatch.setattr(colocation, "find_cgroup_mounts", lambda *_: CgroupMounts({}))
    monkeypatch.setattr(colocation, "open_environment", opened)
    kept = tmp_path / "rounds.json"
    monkeypatch.setattr(sys, "argv", ["colocation.py", "--quick", "--json", str(kept)])
    assert colocation.main() == 0
    said = capsys.readouterr().out
    assert "Goals, over the quiet rounds:" in said
    assert "too few quiet rounds to say" in said
    found = msgspec.json.decode(kept.read_bytes(), type=list[Round])
    assert len(found) == 2 * (len(COLOCATION) - 1)
