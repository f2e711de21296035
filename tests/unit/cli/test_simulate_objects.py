"""`slackwater simulate --objects`: manifests as in a cluster, and one sentence for wrong ones."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from slackwater.cli.simulate import simulate
from tests.unit.cli.test_simulate import SMALL
from tests.unit.simulation.test_scenario_ensurance import ACTION, RULES

PODS = [
    {"name": "web", "tier": "burstable", "request": 2, "demand": "2500m", "priority": 100},
    {"name": "batch", "tier": "burstable", "request": "100m", "demand": 1, "priority": -1},
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    document = {**SMALL, "spec": {"cpus": 4, "duration": "10s", "pods": PODS}}
    Path("small.yaml").write_text(yaml.safe_dump(document))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, ["small.yaml", *arguments])


def test_a_file_and_a_folder(here: Path) -> None:
    Path("rules.yaml").write_text(yaml.safe_dump_all([RULES, {"kind": "Secret"}]))
    Path("actions").mkdir()
    Path("actions/throttle.json").write_text(json.dumps({"kind": "List", "items": [ACTION]}))
    Path("actions/README").write_text("not a manifest")
    done = run("--objects", "rules.yaml", "--objects", "actions", "-o", "json")
    assert done.exit_code == 0
    told = [row["what"] for row in json.loads(done.stdout)["timeline"]]
    assert "event AvoidanceTriggered" in told
    assert "quota of kubepods/burstable/podbatch/main" in told


def test_the_table_has_short_names_and_what_became_of_commands(here: Path) -> None:
    taint = {**ACTION, "spec": {"coolDownSeconds": 5}}
    Path("all.yaml").write_text(yaml.safe_dump_all([RULES, taint]))
    done = run("--objects", "all.yaml")
    assert "taint interference.crane.io" in done.stdout
    assert "none -> PreferNoSchedule" in done.stdout


def test_a_misspelt_field_is_told(here: Path) -> None:
    action = {**ACTION, "spec": {**ACTION["spec"], "coolDown": 5}}
    Path("all.yaml").write_text(yaml.safe_dump_all([RULES, action]))
    sentence = "AvoidanceAction throttle: spec.coolDown is not known and has no effect"
    done = run("--objects", "all.yaml")
    assert (done.exit_code, done.stderr) == (0, f"slackwater: all.yaml: {sentence}\n")
    scenario = yaml.safe_load(Path("small.yaml").read_text())
    scenario["spec"]["objects"] = [RULES]
    scenario["spec"]["events"] = [{"kind": "objects", "at": "5s", "objects": [action]}]
    Path("small.yaml").write_text(yaml.safe_dump(scenario))
    done = run("-o", "json")
    assert any(sentence in json.dumps(row) for row in json.loads(done.stdout)["timeline"])


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("none.yaml", "kind: Secret", "none.yaml is without any, but must be manifests of QoS"),
        ("empty", None, "empty is without any, but must be manifests of QoS ensurance"),
        (
            "bad.yaml",
            yaml.safe_dump({**ACTION, "spec": {"coolDownSeconds": 0}}),
            "spec.coolDownSeconds is 0, but must be",
        ),
        ("broken.yaml", "{", "is unreadable, but must be YAML or JSON"),
    ],
)
def test_one_sentence(here: Path, name: str, text: str | None, sentence: str) -> None:
    if text is None:
        Path(name).mkdir()
    else:
        Path(name).write_text(text)
    done = run("--objects", name)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.output


def test_a_path_that_is_not_there(here: Path) -> None:
    assert run("--objects", "nowhere.yaml").exit_code == 2
