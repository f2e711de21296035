"""`slackwater simulate`: what a person and a script see, and one sentence for what is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from slackwater.cli.simulate import (
    _format_reason,
    _format_times,
    print_simulation,
    simulate,
    summary_lines,
)
from slackwater.record.recording import decode_recording
from slackwater.simulation.scenario_report import (
    AgentActivity,
    BestEffortUse,
    OnlineLoss,
    ScenarioReport,
    ScenarioSummary,
    TierReport,
)
from slackwater.simulation.timeline import AGENT, SCENARIO, TimelineRow

SMALL: dict[str, Any] = {
    "apiVersion": "slackwater.io/v1",
    "kind": "Scenario",
    "metadata": {"name": "small"},
    "spec": {
        "cpus": 4,
        "duration": "40s",
        "settings": {"bestEffortShare": {"enabled": True}},
        "pods": [
            {"name": "web", "tier": "burstable", "request": 1, "demand": 1},
            {"name": "batch", "tier": "besteffort", "demand": 4, "from": "10s"},
        ],
        "events": [{"at": "20s", "kind": "kill"}],
    },
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("SLACKWATER_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    write()
    return tmp_path


def write(**spec: Any) -> None:
    document = {**SMALL, "spec": SMALL["spec"] | spec}
    Path("small.yaml").write_text(yaml.safe_dump(document))


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(simulate, ["small.yaml", *arguments], env=environ)


def test_a_timeline_and_a_summary_and_no_file_unasked(here: Path) -> None:
    done = run()
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert [path.name for path in here.iterdir()] == ["small.yaml"]
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["TIME", "WHAT", "FROM", "TO", "BECAUSE"]
    told = " ".join(done.stdout.split())
    assert (
        "0:00:01 quota of besteffort unlimited 2200m used by all but best effort 1000m, 3200m"
        in told
    )
    assert "0:00:10 pod batch it came, besteffort" in told
    assert "0:00:20 agent killed; back in 0 s" in told
    assert "TIER WANTED GOT LOST LOST %" in told
    assert "burstable 1.00 1.00 0.00 0.00" in told
    assert "online lost 0m on average, 0m in the worst 1 % of the time" in told
    assert "release every value restored" in told
    assert "\x1b" not in done.stdout


def test_json_and_yaml_say_the_same(here: Path) -> None:
    first, second = run("-o", "json"), run("-o", "yaml")
    report = json.loads(first.stdout)
    assert yaml.safe_load(second.stdout) == report
    assert (report["apiVersion"], report["kind"]) == ("slackwater.io/v1", "SimulationReport")
    parts = ("scenario", "tiers", "online", "bestEffort", "agent", "left", "timeline")
    assert set(report) == {"apiVersion", "kind", *parts, "placements", "jobs"}
    assert report["scenario"] == {
        "name": "small",
        "cgroup": "v2",
        "cpus": 4,
        "seconds": 40.0,
        "periodSeconds": 1.0,
        "seed": 0,
    }
    assert set(report["agent"]) == {
        "ticks", "early", "blind", "writes", "refused", "repairs", "yields", "holds", "releases",
    }  # fmt: skip
    assert set(report["bestEffort"]) == {"wanted", "got", "idle", "budget", "beyond", "part"}
    assert report["timeline"][0]["by"] == "agent"
    assert first.stderr == ""


def test_the_picture_goes_where_it_is_asked_to(here: Path) -> None:
    done = run("--svg", "there.svg")
    assert (done.exit_code, done.stderr) == (0, "slackwater: wrote there.svg\n")
    assert (here / "there.svg").read_text().startswith("<svg ")
    assert [path.name for path in here.glob("*.svg")] == ["there.svg"]
    lost = run("--svg", "no/such/folder.svg")
    assert lost.exit_code == 1
    assert "no/such/folder.svg cannot be written: No such file or directory" in lost.stderr


def test_a_recording_can_be_read(here: Path) -> None:
    done = run("--record", "small.jsonl")
    assert done.exit_code == 0, done.output
    recording = decode_recording((here / "small.jsonl").read_bytes())
    assert len(recording.ticks) == 40


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (("--best-effort-share-threshold", "50"), {}),
        ((), {"SLACKWATER_BEST_EFFORT_SHARE_THRESHOLD": "50"}),
    ],
)
def test_settings_can_be_tried(
    here: Path, arguments: tuple[str, ...], environ: dict[str, str]
) -> None:
    report = json.loads(run("-o", "json", *arguments, **environ).stdout)
    assert report["timeline"][1]["after"] == "1000m"


def test_wide_shows_every_line(here: Path) -> None:
    noisy = {"name": "web", "tier": "burstable", "demand": {"steps": {"levels": [0, 3, 1]}}}
    batch = {"name": "batch", "tier": "besteffort", "demand": 4}
    write(pods=[noisy, batch], duration="5m", events=[])
    few, all_of_them = run(), run("-o", "wide")
    assert len(few.stdout.splitlines()) < 100
    assert len(all_of_them.stdout.splitlines()) > 150


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"cpus": 0}, "small.yaml: spec.cpus is 0, but must be a whole number, 1 to 512"),
        ({"duration": "soon"}, "small.yaml: spec.duration is 'soon', but must be a duration such"),
        ({"colour": 1}, "a key of small.yaml: spec is 'colour', but must be one of cgroup, cpus,"),
        (
            {"settings": {"bestEffortShare": {"threshold": 101}}},
            "small.yaml: spec.settings.bestEffortShare.threshold is 101, but must be a whole",
        ),
    ],
)
def test_a_bad_scenario_is_one_sentence(here: Path, spec: dict[str, Any], said: str) -> None:
    write(**spec)
    done = run()
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"slackwater: {said}")
    assert done.stderr.count("\n") == 1
    assert list(here.glob("*.svg")) == []


def test_a_bad_flag_is_one_sentence(here: Path) -> None:
    done = run("--best-effort-share-threshold", "101")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "bestEffortShare.threshold (--best-effort-share-threshold or " in done.stderr
    assert ") is 101, but must be a whole number" in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_file_is_wrong_usage(here: Path) -> None:
    assert CliRunner().invoke(simulate, ["nowhere.yaml"]).exit_code == 2
    assert CliRunner().invoke(simulate, ["."]).exit_code == 2


def test_it_is_a_command_of_slackwater(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "simulate", "small.yaml", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["left"] == 0


def test_a_long_run_has_a_bar_on_a_terminal_only(here: Path) -> None:
    """A pseudo-terminal as stderr, a file as stdout."""
    import pty

    terminal, inner = pty.openpty()
    with (here / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "slackwater", "simulate", "small.yaml"],
            stdout=out,
            stderr=inner,
            check=False,
        )
    os.close(inner)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert done.returncode == 0
    assert "small" in shown
    assert "100%" in shown
    assert "100%" not in (here / "out").read_text()


QUOTA = "quota of kubepods/besteffort"
WHY = "best_effort_share: used by all but best effort 1m, 2m allowed"


def row(at: int = 0, until: int = 0, because: str = WHY, **more: object) -> TimelineRow:
    return TimelineRow(at, until, AGENT, QUOTA, because=because, **more)  # type: ignore[arg-type]


def report(budget: float | None = 300.0, part: float | None = 0.5, left: int = 0) -> ScenarioReport:
    return ScenarioReport(
        ScenarioSummary("small", "v2", 4, 100.0, 1.0, 0),
        (TierReport("guaranteed", 0.0, 0.0, 0.0), TierReport("burstable", 200.0, 150.0, 50.0)),
        OnlineLoss(12.5, 700),
        BestEffortUse(400.0, 150.0, 350.0, budget, 0.0, part),
        AgentActivity(100, 2, 0, 7, 1, 3, 1, 4, 0),
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
def test_when(shown: TimelineRow, said: str) -> None:
    assert _format_times(shown) == said


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
def test_because(shown: TimelineRow, said: str) -> None:
    assert _format_reason(shown) == said


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
        (report(), "release       every value restored"),
        (report(left=2), "release       2 values could not be restored"),
    ],
)
def test_the_summary(said: ScenarioReport, line: str) -> None:
    assert line in summary_lines(said)


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row(1, 1, before="unlimited", after="900m", changes=1),
        TimelineRow(2, 2, SCENARIO, "agent", because="killed; back in 0 s"),
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
    rows = [TimelineRow(0, 0, SCENARIO, "agent", because="killed")]
    print_simulation(report(), rows, colour=True)
    assert "\x1b[" in capsys.readouterr().out
    print_simulation(report(), rows, colour=False)
    assert "\x1b[" not in capsys.readouterr().out


def test_names_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would take [x] for a style."""
    rows = [TimelineRow(0, 0, SCENARIO, "pod [bold]x", because="because [red]y")]
    print_simulation(report(), rows, colour=False)
    told = capsys.readouterr().out
    assert "pod [bold]x" in told
    assert "because [red]y" in told
