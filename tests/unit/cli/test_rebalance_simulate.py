"""`slackwater rebalance simulate`: what people and scripts see; one sentence for mistakes."""

import json
import os
import re
import shlex
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from slackwater.cli import rebalance_simulate
from slackwater.cli.main import slackwater
from slackwater.settings import rotation_whatif as own
from slackwater.settings.rotation_workload import MOVES

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "rebalancer" / "day.csv"
REFERENCE = ROOT / "docs" / "reference" / "rebalance-simulate.md"
#: The seed's example for a quarter of an hour.
SIX = {"a": 1.2, "b": 1.1, "c": 0.8, "d": 0.6, "e": 0.4, "f": 0.3}
ROWS = "".join(f"{at},{pod},{cores},1\n" for at in (0, 300, 600) for pod, cores in SIX.items())
CSV = "time,pod,cores,request\n" + ROWS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ours = ("SLACKWATER_", "NO_COLOR", "TOLERANCE", "REBALANCE_", "MINIMUM_", "METRICS_")
    for name in [name for name in os.environ if name.startswith(ours)]:
        monkeypatch.delenv(name)
    Path("day.csv").write_text(CSV)
    return tmp_path


def run(*arguments: str, text: str | None = None, **environ: str) -> Result:
    words = ["rebalance", "simulate", *arguments]
    return CliRunner().invoke(slackwater, words, input=text, env=environ)


def told(*arguments: str, text: str | None = None, **environ: str) -> dict[str, Any]:
    done = run(*arguments, "-o", "json", text=text, **environ)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_generated_day_for_people() -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "A generated day (seed 0): 12 pods, 288 steps of 5m; HPA target 70 %"
    )
    assert max(len(line) for line in lines) <= 110
    words = " ".join(done.stdout.split())
    assert "ROTATION SKEW WORST ABOVE CORE-HOURS MOST REPLICAS" in words
    assert "without 2.30 3.32 6.8 % 339.5 24" in words
    assert "TIME HOT PREDICTED GAIN REALISED PODS 5:50 1.08 0.49 55.1 %" in words
    assert "Steps without a rotation: no_pods_above_tolerance 286" in words
    assert "It would have rotated 2 times in 24 h, 6 pods in all." in words


def test_the_seeds_example_from_a_file() -> None:
    found = told("day.csv")
    assert found["day"]["recording"] == "day.csv"
    assert found["day"]["seed"] is None
    (rotation,) = found["rotations"]
    assert sorted(rotation["pods"]) == ["a", "b", "e", "f"]
    assert rotation["improvement"] == 34.78
    assert (found["hpa"], found["day"]["steps"]) == ({"target": 70.0, "unit": "percent"}, 3)


def test_from_standard_input_and_from_prometheus() -> None:
    piped = told("-", text=CSV)
    assert piped["day"]["recording"] == "standard input"
    assert piped["rotations"] == told("day.csv")["rotations"]
    result = [
        {"metric": {"pod": pod}, "values": [[at, str(cores)] for at in (0, 300, 600)]}
        for pod, cores in SIX.items()
    ]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    found = told("-", "--request", "1", text=json.dumps(answer))
    assert found["rotations"] == told("day.csv")["rotations"]


def test_json_and_yaml_say_the_same() -> None:
    one, other = run("day.csv", "-o", "json"), run("day.csv", "-o", "yaml")
    found = json.loads(one.stdout)
    assert yaml.safe_load(other.stdout) == found
    assert (found["apiVersion"], found["kind"]) == ("slackwater.io/v1", "RebalanceSimulation")
    assert len(found["steps"]) == 3
    assert found["steps"][0]["reason"] == "rotated"


def test_the_same_seed_says_the_same_and_another_does_not() -> None:
    assert run("--seed", "5", "--hours", "6").stdout == run("--seed", "5", "--hours", "6").stdout
    assert told("--seed", "5")["without"] != told("--seed", "6")["without"]


def test_a_picture() -> None:
    done = run("day.csv", "--svg", "day.svg", "-o", "json")
    assert done.exit_code == 0
    assert done.stderr == "slackwater: wrote day.svg\n"
    assert json.loads(done.stdout)["kind"] == "RebalanceSimulation", "stdout has only the result"
    root = ET.fromstring(Path("day.svg").read_text())  # noqa: S314 - our own text
    assert root.tag.endswith("svg")


def test_no_picture_unless_it_is_asked_for(here: Path) -> None:
    run("day.csv")
    assert [path.name for path in here.iterdir()] == ["day.csv"]


@pytest.mark.parametrize(
    ("flags", "key", "value"),
    [
        (["--top-k", "3"], "topK", 3),
        (["--tolerance", "1.2"], "tolerance", 1.2),
        (["--minimum-improvement", "40"], "minimumImprovement", 40.0),
        (["--minimum-pods", "3"], "minimumPods", 3),
        (["--window", "10m"], "window", "10m"),
        (["--window", "10m"], "cooldown", "20m"),
        (["--minimum-pod-age", "1m"], "minimumPodAge", "1m"),
        (["--cooldown", "1h"], "cooldown", "1h"),
        (["--batch-size", "1"], "batchSize", 1),
        (["--stickiness", "0.5"], "stickiness", 0.5),
    ],
)
def test_every_setting_is_a_flag(flags: list[str], key: str, value: object) -> None:
    assert told("day.csv", *flags)["settings"][key] == value


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("SLACKWATER_REBALANCE_TOLERANCE", "1.3", "tolerance", 1.3),
        ("TOLERANCE_MULTIPLIER", "1.4", "tolerance", 1.4),
        ("REBALANCE_TOP_K_PODS", "1", "topK", 1),
        ("SLACKWATER_REBALANCE_SIMULATE_STICKINESS", "0.25", "stickiness", 0.25),
        ("SLACKWATER_REBALANCE_SIMULATE_STICKINESS", "", "stickiness", 0.0),
    ],
)
def test_every_setting_is_a_variable(name: str, text: str, key: str, value: object) -> None:
    assert told("day.csv", **{name: text})["settings"][key] == value


def test_flags_win_over_variables() -> None:
    found = told("day.csv", "--tolerance", "2", TOLERANCE_MULTIPLIER="1.2")
    assert found["settings"]["tolerance"] == 2.0


def test_what_is_not_tried_here_may_be_wrong() -> None:
    assert told("day.csv", PROMETHEUS_TIMEOUT="soon", KAFKA_LAG_ENABLED="perhaps")["steps"]


def test_settings_change_the_answer() -> None:
    assert told("day.csv", "--tolerance", "2")["rotations"] == []
    assert told("day.csv", "--minimum-pods", "3")["skipped"] == {"min_pods": 3}
    assert told("day.csv", "--hpa-target", "100")["skipped"] == {"no_pods_above_tolerance": 3}
    found = told("day.csv", "--hpa-average-value", "0.5")
    assert found["hpa"] == {"target": 0.5, "unit": "cores"}
    assert found["steps"][0]["threshold"] == 0.75


def test_a_generated_days_shape() -> None:
    found = told("--pods", "5", "--partitions", "9", "--hours", "3", "--step", "10m", "--skew", "2",
                 "--request", "2")  # fmt: skip
    assert found["day"] == {
        "recording": None, "seed": 0, "start": 0.0, "seconds": 10800.0, "stepSeconds": 600.0,
        "steps": 18, "missing": 0, "pods": 5,
    }  # fmt: skip
    assert found["steps"][0]["target"] == 1.4


def test_the_step_is_the_recordings_or_the_one_that_is_said() -> None:
    rows = "".join(f"{n * 1800},{pod},0.5,1\n" for n in range(4) for pod in "ab")
    text = "time,pod,cores,request\n" + rows
    assert told("-", text=text)["day"]["stepSeconds"] == 1800.0
    found = told("-", "--step", "10m", text=text)["day"]
    assert (found["stepSeconds"], found["steps"], found["missing"]) == (600.0, 4, 6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pods", "1"], "--pods is 1, but must be a whole number, 2 to 1000"),
        (["--pods", "many"], "--pods is 'many', but must be a whole number, 2 to 1000"),
        (["--partitions", "0"], "--partitions is 0, but must be a whole number, 1 to 10000"),
        (["--skew", "nan"], "--skew is 'nan', but must be a number, 0 to 3"),
        (["--hours", "0.5"], "--hours is '0.5', but must be a number, 1 to 168"),
        (["--seed", "-1"], "--seed is -1, but must be a whole number, 0 to 9223372036854775807"),
        (["--request", "0"], "--request is '0', but must be a number, 0.001 to 10000"),
        (["--hpa-target", "0"], "--hpa-target is '0', but must be a number, 1 % to 1000 %"),
        (["--stickiness", "1.1"], "--stickiness is '1.1', but must be a number, 0 to 1"),
        (["--step", "300"], ("--step is '300', but must be a duration such as 500ms, 1s or 1m30s, "
                            "10s to 24h")),
        (["--tolerance", "0.9"], "--tolerance is '0.9', but must be a number, at least 1"),
        (["--top-k", "0"], "--top-k is 0, but must be a whole number, at least 1"),
        (["--hpa-target", "60", "--hpa-average-value", "1"],
         "--hpa-target and --hpa-average-value are both said, but an HPA has one target"),
        (["day.csv", "--pods", "9"], "--pods is of a generated day, but there is a recording"),
        (["day.csv", "--seed", "0"], "--seed is of a generated day, but there is a recording"),
        (["--hours", "168", "--step", "10s"], (
            "a generated day is 60480 steps of 10 s, but must be at most 20000: choose a longer "
            "--step")),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"slackwater: {sentence}\n"


def test_a_variable_is_blamed_by_its_own_name() -> None:
    done = run(SLACKWATER_REBALANCE_SIMULATE_PODS="x")
    assert done.exit_code == 2
    assert done.stderr == (
        "slackwater: SLACKWATER_REBALANCE_SIMULATE_PODS is 'x', but must be a whole number, 2 to "
        "1000\n"
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "bad.csv line 1 is missing, but must be a header with time, pod, cores and"),
        (
            b"time,pod,cores\n0,a,1\n",
            (
                "bad.csv line 2, request, is missing, but must be a number of cores, above 0 "
                "and up to 10000, or said by --request for all\n"
            ),
        ),
        (
            b"time,pod,cores,request\n0,a,x,1\n",
            "bad.csv line 2, cores, is 'x', but must be a number of cores, 0 to 10000\n",
        ),
        (b"\xff\xfe", "bad.csv is no UTF-8 at byte 0, but must be UTF-8\n"),
        (b"{}", "bad.csv: data is missing, but must be there, as in an answer of"),
    ],
)
def test_a_bad_recording_is_one_sentence(data: bytes, sentence: str) -> None:
    Path("bad.csv").write_bytes(data)
    done = run("bad.csv")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"slackwater: {sentence}")
    assert done.stderr.count("\n") == 1


def test_two_samples_three_years_apart_are_two_steps() -> None:
    """Long ones; but nobody can say that this is a mistake."""
    text = "time,pod,cores,request\n0,a,1,1\n99999999,a,1,1\n"
    assert told("-", text=text)["day"]["steps"] == 2


def test_too_many_steps_are_refused_before_they_are_lived_through() -> None:
    rows = "".join(f"{at},a,1,1\n" for at in (0, 60, 120, 99_999_999))
    done = run("-", text="time,pod,cores,request\n" + rows)
    assert done.exit_code == 2
    assert done.stderr == (
        "slackwater: standard input is 333334 steps of 300 s, but must be at most 20000: choose a "
        "longer --step\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gone.csv"], "gone.csv cannot be read: No such file or directory"),
        (["."], ". cannot be read: Is a directory"),
        (["day.csv", "--svg", "no/where.svg"], ("no/where.svg cannot be written: No such file or "
                                               "directory")),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"slackwater: {sentence}\n"


def test_an_improvement_that_cannot_be_reached_is_warned_about() -> None:
    done = run("day.csv", "--minimum-improvement", "70")
    assert done.exit_code == 0
    assert "slackwater: " in done.stderr
    assert "minimum" in done.stderr.lower()


def test_wide_lists_every_rotation() -> None:
    arguments = ["--pods", "20", "--skew", "1", "--stickiness", "0.5", "--tolerance", "1"]
    arguments += ["--step", "30m", "--cooldown", "0s"]
    usual, wide = run(*arguments), run(*arguments, "-o", "wide")
    count = len(told(*arguments)["rotations"])
    assert count > 8
    assert f"and {count - 8} more: -o wide shows all" in usual.stdout
    assert "more: -o wide" not in wide.stdout
    assert len(wide.stdout.splitlines()) > len(usual.stdout.splitlines())


def test_help_has_every_flag_with_variable_default_and_bound() -> None:
    done = run("--help")
    assert done.exit_code == 0
    words = " ".join(done.stdout.split())
    assert "--skew NUMBER" in words
    assert "Default: 0.7. Bound: 0 to 3. [env: SLACKWATER_REBALANCE_SIMULATE_SKEW]" in words
    assert "SLACKWATER_REBALANCE_TOLERANCE or TOLERANCE_MULTIPLIER" in words


def test_the_example_of_the_repository() -> None:
    found = told(str(EXAMPLE))
    assert (found["day"]["pods"], found["day"]["steps"], found["day"]["missing"]) == (8, 48, 0)
    assert found["day"]["stepSeconds"] == 1800.0
    assert len(found["rotations"]) == 1
    assert found["saved"]["percent"] > 20
    assert "since 2026-11-16T00:00:00Z" in run(str(EXAMPLE)).stdout


@pytest.mark.parametrize("kind", own.ALL, ids=lambda kind: kind.name)
def test_the_reference_has_every_flag_default_and_bound(kind: own.Told) -> None:
    row = f"| `{own.flag_of(kind)}` | {own.default_of(kind)} | {kind.span()} |"
    assert row in REFERENCE.read_text()


def test_the_reference_has_every_key_and_every_flag_of_a_workload() -> None:
    text = REFERENCE.read_text()
    found = told("day.csv")
    keys = [*found, *found["day"], *found["settings"], *found["without"], *found["steps"][0]]
    for key in (*keys, *found["rotations"][0]):
        assert key in text
    for entry in MOVES:
        assert f"`{entry.flag}`" in text


def commands() -> list[str]:
    """Those of the reference that need nothing but a recording."""
    text = REFERENCE.read_text()
    found = re.findall(r"^ {4}slackwater rebalance simulate(.*)$", text, re.MULTILINE)
    plain = [command.split("   ")[0].strip() for command in found if "[" not in command]
    return [command for command in plain if "json" not in command]


@pytest.mark.parametrize("command", commands())
def test_the_references_examples_work(here: Path, command: str) -> None:
    shutil.copytree(ROOT / "examples" / "rebalancer", here / "examples" / "rebalancer")
    done = run(*shlex.split(command))
    assert done.exit_code == 0, done.output
    assert "It would have rotated" in done.stdout


def test_the_reference_has_examples() -> None:
    assert len(commands()) >= 4


def test_a_bar_for_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, so that a pipe gets only the result."""
    monkeypatch.setattr(rebalance_simulate, "_is_watched", lambda: True)
    done = run("day.csv", "-o", "json")
    assert done.exit_code == 0
    assert "steps" in done.stderr
    assert json.loads(done.stdout)["kind"] == "RebalanceSimulation"
