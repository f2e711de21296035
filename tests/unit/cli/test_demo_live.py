"""The live screen, as text."""

import io

from rich.console import Console

from slackwater.cli.demo import LiveView, screen
from slackwater.demo.demo_plan import ALONE, DEMO, SLACKWATER, UNPROTECTED
from slackwater.demo.measurements import AgentEntry, CpuUse, PhaseProgress, PhaseSample
from tests.unit.demo.examples import answers

SAMPLE = PhaseSample(1.0, 2.0, CpuUse(0.5, 1.0, 0.25, 0.25), 1.1)


def shown(done: list[PhaseProgress], now: PhaseProgress) -> list[str]:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(screen(done, now))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_phases_so_far_and_those_to_come() -> None:
    done = [PhaseProgress(ALONE, 10.0, 10.0, answers(5.0))]
    lines = shown(done, PhaseProgress(UNPROTECTED, 3.0, 10.0, answers(20.0), SAMPLE))
    rows = {phase.name: next(line for line in lines if phase.title in line) for phase in DEMO}
    assert rows["alone"].split()[:1] == ["✓"]
    assert "5.0 ms" in rows["alone"]
    assert "10.0 ms" in rows["alone"]
    assert rows["unprotected"].startswith("▶")
    assert rows["unprotected"].endswith("3 of 10 s")
    assert rows["slackwater"].strip() == SLACKWATER.title


def test_bars_are_as_long_as_their_part_of_the_machine() -> None:
    lines = shown([], PhaseProgress(ALONE, 1.0, 10.0, (), SAMPLE))
    bars = {line.split()[0]: line.count("█") for line in lines if "CPUs" in line}
    assert bars == {"batch": 22, "service": 11, "other": 6, "idle": 6, "quota": 0}
    assert any(line.endswith("1.10 CPUs") and line.startswith("quota") for line in lines)


def test_no_quota_is_none() -> None:
    sample = PhaseSample(0.0, 1.0, CpuUse(0.0, 0.0, 0.0, 0.0))
    lines = shown([], PhaseProgress(ALONE, 1.0, 10.0, (), sample))
    assert any(line.split() == ["quota", "none"] for line in lines)


def test_a_demoted_batch_is_told_beside_its_quota() -> None:
    sample = PhaseSample(0.0, 1.0, CpuUse(0.0, 0.0, 0.0, 0.0), demoted=True)
    lines = shown([], PhaseProgress(ALONE, 1.0, 10.0, (), sample))
    assert "quota   none, at the lowest weight" in lines


def test_before_the_first_look_it_is_starting() -> None:
    assert "starting …" in shown([], PhaseProgress(ALONE, 0.0, 10.0))


def test_the_agents_last_words() -> None:
    said = tuple(
        AgentEntry(float(n), "quota of x", "2m", f"{n}m", f"policy: reason {n}") for n in range(9)
    )
    lines = shown([], PhaseProgress(SLACKWATER, 9.0, 10.0, (), SAMPLE, said))
    told = [line.strip() for line in lines if "reason" in line]
    assert told == [f"{n}.0 s quota 2m → {n}m reason {n}" for n in (5, 6, 7, 8)]


def test_what_was_said_before_the_phase_is_not_shown() -> None:
    said = (AgentEntry(-1.5, "x", because="early"), AgentEntry(0.5, "x", because="in time"))
    lines = shown([], PhaseProgress(SLACKWATER, 9.0, 10.0, (), SAMPLE, said))
    assert [line.strip() for line in lines if "early" in line or "in time" in line] == [
        "0.5 s in time"
    ]
    assert "starting …" not in lines


def test_simulated_seconds_are_called_so() -> None:
    lines = shown([], PhaseProgress(ALONE, 3.0, 13.0, (), SAMPLE, unit="simulated s"))
    assert any(line.endswith("3 of 13 simulated s") for line in lines)


def test_a_live_view_ends_clean_and_remembers_phases() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100)
    with LiveView(console) as view:
        for phase in DEMO:
            view.update(PhaseProgress(phase, 0.0, 10.0))
            view.update(PhaseProgress(phase, 10.0, 10.0, answers(7.0), SAMPLE))
    assert file.getvalue().count("✓") > 3
    assert view._last is not None
    assert view._last.phase == SLACKWATER
    assert [progress.phase for progress in view._done] == list(DEMO[:-1])
