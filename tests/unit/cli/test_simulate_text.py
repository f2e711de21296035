"""A simulation as tables: what a line says, and what the summary's sentences say."""

import pytest

from slackwater.cli.simulate_text import _because, _when, print_simulation, sentences
from slackwater.model.units import Micros
from slackwater.simulation.report import About, BestEffort, Online, Report, Rounds, TierReport
from slackwater.simulation.timeline import SCENARIO, Row

SECOND = 1_000_000
QUOTA = "quota of kubepods/besteffort"
WHY = "best_effort_share: used by all but best effort 1m, 2m allowed"


def row(at: int = 0, until: int = 0, because: str = WHY, **more: object) -> Row:
    return Row(Micros(at * SECOND), Micros(until * SECOND), QUOTA, because, **more)  # type: ignore[arg-type]


def report(budget: float | None = 300.0, part: float | None = 0.5, left: int = 0) -> Report:
    return Report(
        About("small", "v2", 4, 100.0, 1.0, 0),
        (TierReport("guaranteed", 0.0, 0.0, 0.0), TierReport("burstable", 200.0, 150.0, 50.0)),
        Online(12.5, 700),
        BestEffort(400.0, 150.0, 350.0, budget, 0.0, part),
        Rounds(100, 2, 0, 7, 1, 3, 1, 4, 0),
        left,
        (),
    )


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (row(5, 5), "0:00:05"),
        (row(5, 65), "0:00:05-0:01:05"),
        (row(3600, 90_000), "1:00:00-25:00:00"),
    ],
)
def test_when(shown: Row, said: str) -> None:
    assert _when(shown) == said


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (row(), "used by all but best effort 1m, 2m allowed"),
        (row(because="killed"), "killed"),
        (row(because="killed", times=3), "killed (3 times)"),
        (row(because="x", result="refused: Invalid argument"), "x (refused: Invalid argument)"),
        (
            row(because="x", changes=9, lowest="10m", highest="20m"),
            "9 writes, 10m to 20m; last x",
        ),
    ],
)
def test_because(shown: Row, said: str) -> None:
    assert _because(shown) == said


GOT = "best effort   got 1.50 CPUs of 3.50 that others left idle"
DID = "100 ticks (2 early), 7 writes, 1 refused, 3 repairs, 1 yields, 4 ticks on hold"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (report(), "online lost   12.5m on average, 700m in the worst 1 % of the time"),
        (report(), f"{GOT}, 3.00 of them within the threshold: 50.0 % of what it could have had"),
        (report(None), f"{GOT}, without a quota"),
        (report(part=None), f"{GOT}, 3.00 of them within the threshold"),
        (report(), f"agent         {DID}"),
        (report(), "release       every value is back"),
        (report(left=2), "release       2 values could not be put back"),
    ],
)
def test_the_summary(said: Report, line: str) -> None:
    assert line in sentences(said)


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row(1, 1, before="unlimited", after="900m", changes=1),
        Row(Micros(2 * SECOND), Micros(2 * SECOND), "agent", "killed; back in 0 s", by=SCENARIO),
    ]
    print_simulation(report(), rows, colour=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:8] == [
        "0:00:01",
        "quota",
        "of",
        "besteffort",
        "unlimited",
        "900m",
        "used",
        "by",
    ]
    assert lines[2] == ["0:00:02", "agent", "killed;", "back", "in", "0", "s"]
    assert ["guaranteed", "0.00", "0.00", "0.00", "-"] in lines
    assert ["burstable", "2.00", "1.50", "0.50", "25.00"] in lines


def test_colour_only_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row(Micros(0), Micros(0), "agent", "killed", by=SCENARIO)]
    print_simulation(report(), rows, colour=True)
    assert "\x1b[" in capsys.readouterr().out
    print_simulation(report(), rows, colour=False)
    assert "\x1b[" not in capsys.readouterr().out


def test_names_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would take [x] for a style."""
    rows = [Row(Micros(0), Micros(0), "pod [bold]x", "because [red]y", by=SCENARIO)]
    print_simulation(report(), rows, colour=False)
    told = capsys.readouterr().out
    assert "pod [bold]x" in told
    assert "because [red]y" in told
