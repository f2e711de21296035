"""`slackwater rebalance simulate`: what people and scripts see."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.simulated_days import CSV, EXAMPLE, SIX, run, settle_in, told


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settle_in(tmp_path, monkeypatch)
    return tmp_path


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
