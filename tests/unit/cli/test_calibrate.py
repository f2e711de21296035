"""`slackwater calibrate` and `slackwater normalize model` as a person and a script see them."""

import json
import subprocess
import sys
from pathlib import Path

import yaml


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slackwater", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_calibration_becomes_a_config_map(tmp_path: Path) -> None:
    done = run("calibrate", "--rounds", "3", "--slice", "0.05", "-o", "json")
    # 1 says that something disturbed the measurement, which is true beside other tests.
    assert done.returncode in (0, 1)
    assert bool(done.stderr) == (done.returncode == 1)
    measured = json.loads(done.stdout)
    assert measured["kind"] == "CalibrationResult"
    assert measured["score"]["all"] > 0
    file = tmp_path / "machine.json"
    file.write_text(done.stdout)
    made = run("normalize", "model", str(file), "-o", "yaml")
    assert made.returncode == 0
    # A model of a disturbed measurement says so.
    assert made.stderr == done.stderr.replace("slackwater: ", f"slackwater: {file}: ")
    config_map = yaml.safe_load(made.stdout)
    model = json.loads(config_map["data"]["cpu-normalization-config"])["ratioModel"]
    assert list(model) == [measured["machine"]["cpuModel"]]
    assert next(iter(model.values())).popitem()[1] == 1.0
    table = run("normalize", "model", str(file))
    assert table.returncode == 0
    assert "1.00" in table.stdout


def test_wrong_input_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text("{}")
    refused = run("normalize", "model", str(file))
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"slackwater: {file} is not one (")
    assert refused.stderr.count("\n") == 1
    odd = run("normalize", "model", str(file), "-n", "Bad NS")
    assert (odd.returncode, "a DNS label" in odd.stderr) == (2, True)
    assert run("calibrate", "--rounds", "0").returncode == 2
    assert run("calibrate", "--slice", "nan").returncode == 2
