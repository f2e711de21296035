"""`slackwater simulate --compare-oversold`: one scenario, without and with overselling."""

import json
import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from slackwater.cli.simulate import simulate
from tests.unit.simulation.test_job_queue import document

RUN_KEYS = {
    "busy", "offered", "bought", "bestEffortUsed", "onlineLost", "online", "jobs", "left",
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SLACKWATER_")]:
        monkeypatch.delenv(name)
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(document(enabled=False)))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, ["jobs.yaml", "--compare-oversold", *arguments])


def test_a_table_and_one_picture(here: Path) -> None:
    done = run("--svg", "jobs.svg")
    assert (done.exit_code, done.stderr) == (0, "slackwater: wrote jobs.svg\n")
    lines = [" ".join(each.split()) for each in done.stdout.splitlines()]
    assert lines[0] == "WITHOUT WITH OVERSELLING"
    assert "jobs finished 0 of 4 4 of 4" in lines
    assert "lost by online pods 0.00 0.00" in lines
    assert "Without overselling 0 of 4 batch jobs finished, with it 4; " in done.stdout
    drawn = (here / "jobs.svg").read_text()
    for words in ("Without overselling: CPUs in use", "0 of 4", "4 of 4", "Jobs that wait"):
        assert f">{words}<" in drawn


def test_json_has_both_runs(here: Path) -> None:
    found = json.loads(run("-o", "json").stdout)
    assert list(here.glob("*.svg")) == []
    assert set(found) == {"apiVersion", "kind", "scenario", "without", "with"}
    assert found["kind"] == "OversoldComparison"
    assert (set(found["without"]), set(found["with"])) == (RUN_KEYS, RUN_KEYS)
    without, sold = found["without"], found["with"]
    assert (without["offered"], without["bought"], without["bestEffortUsed"]) == (0, 0, 0)
    # Four jobs of 2 CPUs for 5 minutes; one CPU of eight is in use without them.
    assert sold["bought"] == sold["bestEffortUsed"] == 2400
    assert sold["offered"] > sold["bought"]
    assert (without["busy"], sold["busy"]) == (0.125, round((1800 + 2400) / (8 * 1800), 4))
    assert (without["jobs"]["finished"], sold["jobs"]["finished"]) == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--record", "a"], "--record keeps one run, --compare-oversold makes two."),
        (
            ["--oversold-enabled", "true"],
            "oversold.enabled is set to true, and --compare-oversold tries both.",
        ),
    ],
)
def test_what_does_not_go_with_it(arguments: list[str], sentence: str) -> None:
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert sentence in refused.stderr


def test_there_must_be_jobs(here: Path) -> None:
    wrong = document(enabled=True)
    spec = wrong["spec"]
    assert isinstance(spec, dict)
    del spec["jobs"]
    (here / "jobs.yaml").write_text(yaml.safe_dump(wrong))
    refused = run()
    assert refused.exit_code == 2
    assert "spec.jobs is empty, must name jobs for --compare-oversold" in refused.stderr
