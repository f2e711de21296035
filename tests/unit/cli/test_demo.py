"""`slackwater demo` as a person and a script see it; here on the simulated kernel."""

import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console

from slackwater.cli import demo as command
from slackwater.cli.demo import Detail, demo, demo_blocks
from slackwater.demo import program
from slackwater.demo.cgroup_tree import CannotBuildTreeError
from slackwater.demo.demo_plan import DEMO
from slackwater.demo.demo_report import DemoReport
from slackwater.demo.measurements import MeasurementError, Noise, PhaseProgress
from slackwater.drawing import png as drawing
from slackwater.model.gap import Gap
from slackwater.observation.detection import EnvironmentValueError
from tests.unit.demo.examples import real_report, simulated_report

UNWRITABLE = "cannot be written: Is a directory; choose another folder with --out, or --no-picture"
WRONG = EnvironmentValueError("SLACKWATER_CGROUP_VERSION", "3", ("v1", "v2"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(demo, list(arguments))


def test_the_simulated_demo_from_end_to_end(tmp_path: Path) -> None:
    done = run("--simulated", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert (
        done.stderr.splitlines()[0] == "slackwater: simulated, because asked for with --simulated"
    )
    assert done.stdout.startswith("On the simulated kernel (asked for with --simulated)")
    for phase in DEMO:
        assert phase.title in done.stdout
    svg = ET.parse(tmp_path / "slackwater-demo.svg")  # noqa: S314 - our own file
    assert svg.getroot().tag.endswith("svg")
    assert f"picture: {tmp_path}/slackwater-demo.svg" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_for_scripts(output: str, read: Any) -> None:
    done = run("--simulated", "--no-picture", "-o", output, "--seconds", "4")
    report = read(done.stdout)
    assert (report["apiVersion"], report["kind"]) == ("slackwater.io/v1", "DemoReport")
    assert [phase["seconds"] for phase in report["phases"]] == [4.0] * 3
    assert report["pictures"] == []


def test_no_picture_writes_nothing(tmp_path: Path) -> None:
    done = run("--simulated", "--no-picture", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert "picture" not in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seconds", "0.5"), "0.5 is not in the range 1.0<=x<=600.0"),
        (("--seconds", "soon"), "'soon' is not a valid float"),
        (("--seconds", "nan"), "nan is not in the range 1.0<=x<=600.0"),
        (("--seconds", "inf"), "inf is not in the range 1.0<=x<=600.0"),
        (("--out", "/nowhere/at/all"), "'/nowhere/at/all' does not exist"),
        (("--nonsense",), "No such option"),
        (("extra",), "unexpected extra argument"),
        (("-o", "xml"), "'xml' is not one of"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], words: str) -> None:
    done = run("--simulated", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_nan_in_the_environment_is_2_as_well() -> None:
    done = CliRunner(env={"SLACKWATER_DEMO_SECONDS": "nan"}).invoke(demo, ["--simulated"])
    assert done.exit_code == 2
    assert "nan is not in the range" in done.stderr


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_that_cannot_be_written_is_told_before_the_demo(
    tmp_path: Path, ending: str
) -> None:
    (tmp_path / f"slackwater-demo.{ending}").mkdir()
    done = run("--simulated", "--out", str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"slackwater: {tmp_path}/slackwater-demo.{ending} {UNWRITABLE}"
    ]
    assert [path.name for path in tmp_path.iterdir()] == [f"slackwater-demo.{ending}"]
    assert run("--simulated", "--no-picture", "--out", str(tmp_path)).exit_code == 0


def test_a_folder_that_takes_no_file_is_told_before_the_demo() -> None:
    done = run("--simulated", "--out", "/proc")
    assert done.exit_code == 2
    assert done.stderr.startswith("slackwater: /proc/slackwater-demo.svg cannot be written: ")


def test_an_old_picture_is_left_alone_until_there_is_a_new_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "slackwater-demo.svg"
    old.write_text("old")
    monkeypatch.setattr(program, "run_demo", fail(MeasurementError("no")))
    assert run("--out", str(tmp_path)).exit_code == 1
    assert old.read_text() == "old"


def fail(error: BaseException) -> Any:
    def raising(*_: object) -> None:
        raise error

    return raising


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MeasurementError("the demo's load did not start"), 1, "the demo's load did not start"),
        (WRONG, 2, f"slackwater: {WRONG}"),
        (KeyboardInterrupt(), 130, "slackwater: stopped; everything was restored"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    monkeypatch.setattr(program, "run_demo", fail(error))
    done = run("--no-picture")
    assert done.exit_code == code
    assert done.stderr.strip().endswith(words)
    assert done.stdout == ""


def test_where_no_cgroups_can_be_made_it_is_simulated_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    why = "no cgroups can be made at /x: Permission denied"
    monkeypatch.setattr(program, "run_demo", fail(CannotBuildTreeError(why)))
    done = run("--no-picture", "-o", "json")
    assert done.exit_code == 0
    assert done.stderr.splitlines()[0] == f"slackwater: simulated, because {why}"
    assert json.loads(done.stdout)["machine"]["simulatedBecause"] == why


def test_a_real_result_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "run_demo", lambda *_: real_report(Noise(0.0, 0.9)))
    done = run("--no-picture")
    rows = done.stdout.splitlines()
    assert rows[0].split() == ["PHASE", "P90", "SLICES", "P99", "ABOVE", "BATCH", "NODE"]
    assert rows[1].split() == ["service", "alone", "5.0", "ms", "5.0–5.0", "10.0", "ms", "0", "%",
                               "0.00", "25", "%"]  # fmt: skip
    said = done.stdout.replace("\n", " ")
    assert "was not quiet" in said
    assert "as long" not in said  # nothing follows from it
    assert "A quota alone does not protect latency" in said
    assert "above: seconds whose p90 was above 10.0 ms" in said
    monkeypatch.setattr(program, "run_demo", lambda *_: real_report())
    assert "4.0× as long" in run("--no-picture").stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("report", "heads", "row"),
    [
        (real_report(), ["PHASE", "P90", "BATCH", "NODE"], "slackwater 5.5 ms 1.35 92 %"),
        (simulated_report(), ["PHASE", "LOST", "BATCH", "NODE"], "slackwater 0.00 1.90 98 %"),
    ],
)
def test_a_narrow_terminal_has_a_short_table(report: Any, heads: list[str], row: str) -> None:
    console = Console(width=36, file=io.StringIO(), record=True)
    for block in demo_blocks(report, Detail.SHORT):
        console.print(block)
    lines = [line.split() for line in console.export_text().splitlines()]
    assert heads in lines
    assert row.split() in lines


def test_wide_has_every_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "run_demo", lambda *_: real_report())
    done = run("--no-picture", "-o", "wide")
    assert done.stdout.splitlines()[0].split()[7:] == [
        "DEMOTED", "BOUNDED", "SERVICE", "REQUESTS", "FAILED", "STEAL", "FOREIGN",
    ]  # fmt: skip
    said = done.stdout.replace("\n", " ")
    assert "before  watermark_relief  held: the probe has not answered yet" in said
    assert "-0.5" not in said


def test_without_a_renderer_the_svg_alone_is_written_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(drawing, "render_png", lambda _: Gap("there is no renderer"))
    done = run("--simulated", "--out", str(tmp_path), "-o", "json")
    assert done.exit_code == 0
    assert "slackwater: only the SVG was written: there is no renderer" in done.stderr
    assert json.loads(done.stdout)["pictures"] == [f"{tmp_path}/slackwater-demo.svg"]
    assert [path.name for path in tmp_path.iterdir()] == ["slackwater-demo.svg"]


def test_a_picture_that_cannot_be_written_after_all_is_1_and_the_table_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def spoil(*_: object) -> DemoReport:
        (tmp_path / "slackwater-demo.svg").mkdir()
        return real_report()

    monkeypatch.setattr(program, "run_demo", spoil)
    done = run("--out", str(tmp_path))
    assert done.exit_code == 1
    assert done.stdout.startswith("PHASE")
    assert f"{tmp_path}/slackwater-demo.svg cannot be written: Is a directory" in done.stderr


def test_each_phase_is_told_once_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = command._PhaseLines()
    for phase in DEMO:
        for at in (0.0, 1.0, 2.0):
            lines.update(PhaseProgress(phase, at, 13.0))
    told = capsys.readouterr().err.splitlines()
    assert told == [f"slackwater: {phase.title}, 13 s" for phase in DEMO]
    command._PhaseLines().update(PhaseProgress(DEMO[0], 0.0, 13.0, unit="simulated s"))
    assert capsys.readouterr().err == "slackwater: service alone, 13 simulated s\n"


def test_each_slice_is_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    lines = command._PhaseLines()
    for number in (1, 2, 2):
        lines.update(PhaseProgress(DEMO[0], 0.0, 9.0, number=number, slices=2))
    assert capsys.readouterr().err.splitlines() == [
        "slackwater: service alone, 9 s (1 of 2)",
        "slackwater: service alone, 9 s (2 of 2)",
    ]


def test_an_interruption_while_it_is_imported_is_no_traceback() -> None:
    spoiled = (
        "import sys, slackwater.__main__ as m; sys.modules['slackwater.cli.main'] = X(); m.run()"
    )
    late = "class X:\n def __getattr__(self, name): raise KeyboardInterrupt\n"
    done = subprocess.run(
        [sys.executable, "-c", late + spoiled],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_as_a_program(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SLACKWATER_")}
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "demo", "--simulated", "-o", "json"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=environ | {"SLACKWATER_DEMO_SECONDS": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(done.stdout)
    assert report["phases"][0]["seconds"] == 3.0
    assert (tmp_path / "slackwater-demo.svg").exists()
