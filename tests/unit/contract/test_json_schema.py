"""JSON Schema of our files: what readers take is valid, what they refuse for one value is not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from slackwater.cli.schema import FileKind, render_schema
from slackwater.contract.json_schema import struct_schema, type_schema
from slackwater.contract.schema import key_of, struct_type
from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros, format_duration
from slackwater.policies.catalog import SETTINGS
from slackwater.simulation.scenario_entries import EVENTS, SpecEntry
from slackwater.simulation.scenario_file import scenario_in
from tests.unit.cli.served import slackwater
from tools.provision import ROOT
from tools.schemas import FOLDER, files


def printed(kind: FileKind) -> dict[str, Any]:
    schema: dict[str, Any] = yaml.safe_load(render_schema(kind))
    return schema


def validator(kind: FileKind) -> Draft202012Validator:
    schema = printed(kind)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


AGENT = validator(FileKind.AGENT_SETTINGS)
SCENARIO = validator(FileKind.SCENARIO)
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml")) + sorted((ROOT / "docs").rglob("*.yaml"))


def documents(kind: str) -> list[tuple[Path, Any]]:
    return [
        (path, each)
        for path in EXAMPLES
        for each in yaml.safe_load_all(path.read_text())
        if isinstance(each, dict) and each.get("kind") == kind
    ]


@pytest.mark.parametrize("name", sorted(files()))
def test_the_files_in_docs_are_as_generated(name: str) -> None:
    """Else: .venv/bin/python -m tools.schemas."""
    assert (FOLDER / name).read_text(encoding="utf-8") == files()[name]


def test_the_examples_are_valid() -> None:
    for kind, schema, least in (("AgentSettings", AGENT, 1), ("Scenario", SCENARIO, 10)):
        found = documents(kind)
        assert len(found) >= least
        for path, each in found:
            assert [error.message for error in schema.iter_errors(each)] == [], path


def agent(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings", "spec": spec}


def accepted(document: object) -> bool:
    try:
        SETTINGS.read_file(document, "settings.yaml")
    except InvalidError:
        return False
    return True


@pytest.mark.parametrize(
    ("document", "good"),
    [
        (agent(), True),
        (agent(bestEffortShare={"enabled": True, "threshold": 80}), True),
        (agent(agent={"period": "500ms", "reading": "everything"}), True),
        (agent(elasticResources={"cpuResource": "example.com/batch-cpu"}), True),
        (agent(watermarkRelief={"exemptNamespaces": ["batch", "*"]}), True),
        (agent(bestEffortShare={"threshold": 101}), False),
        (agent(bestEffortShare={"threshold": "80"}), False),
        (agent(bestEffortShare={"treshold": 80}), False),
        (agent(bestEffortShares={}), False),
        (agent(agent={"period": 1}), False),
        (agent(agent={"period": "1 s"}), False),
        (agent(agent={"reading": "all"}), False),
        (agent(elasticResources={"cpuResource": "cpu"}), False),
        (agent(watermarkRelief={"exemptNamespaces": "batch"}), False),
        ({**agent(), "kind": "Settings"}, False),
        ({**agent(), "apiVersion": "v1"}, False),
        ({**agent(), "spce": {}}, False),
    ],
)
def test_settings_are_judged_as_the_agent_judges_them(document: object, good: bool) -> None:
    assert AGENT.is_valid(document) is good
    assert accepted(document) is good


def test_every_setting_is_in_the_schema_with_its_words() -> None:
    sections = printed(FileKind.AGENT_SETTINGS)["properties"]["spec"]["properties"]
    for each in SETTINGS.rows:
        section, _, key = each.key.partition(".")
        found = sections[section]["properties"][key]
        assert found["description"].startswith(each.description)
        if each.default_value is False:
            assert found["default"] is False


def test_defaults_are_written_as_a_person_writes_them() -> None:
    period = printed(FileKind.AGENT_SETTINGS)["properties"]["spec"]["properties"]["agent"][
        "properties"
    ]["period"]
    assert period["default"] == format_duration(Micros(1_000_000)) == "1s"


POD = {"name": "web", "tier": "burstable", "demand": 1}


def scenario(**spec: Any) -> dict[str, Any]:
    whole = {"cpus": 4, "duration": "1m", "pods": [POD], **spec}
    return {"apiVersion": "slackwater.io/v1", "kind": "Scenario", "spec": whole}


def runs(document: object) -> bool:
    try:
        scenario_in(document, "scenario.yaml")
    except InvalidError:
        return False
    return True


@pytest.mark.parametrize(
    ("document", "good"),
    [
        (scenario(), True),
        (scenario(pods=[{**POD, "demand": {"sum": [1, {"noise": {"high": "250m"}}]}}]), True),
        (scenario(pods=[{**POD, "demand": {"steady": "1500m"}}]), True),
        (scenario(events=[{"at": "10s", "kind": "kill"}]), True),
        (scenario(events=[{"at": "10s", "kind": "pod-added", "pod": {**POD, "name": "b"}}]), True),
        (scenario(events=[{"at": "10s", "kind": "settings", "settings": {}}]), True),
        (scenario(jobs=[{"name": "job", "cpu": 2, "duration": "10s"}]), True),
        (scenario(settings={"bestEffortShare": {"enabled": True}}), True),
        (scenario(pods=[{**POD, "tier": "best-effort"}]), False),
        (scenario(pods=[{**POD, "demand": {"noise": {}}}]), False),
        (scenario(pods=[{**POD, "demand": {"noise": {"high": 1}, "steady": 1}}]), False),
        (scenario(pods=[{**POD, "demand": "much"}]), False),
        (scenario(pods=[{"name": "web", "tier": "burstable"}]), False),
        (scenario(events=[{"at": "10s", "kind": "killed"}]), False),
        (scenario(events=[{"at": "10s", "kind": "pod-added", "pod": "web"}]), False),
        (scenario(settings={"bestEffortShare": {"threshold": 0}}), False),
        (scenario(machine={"cores": 0}), False),
        (scenario(period="1"), False),
        (scenario(cpu=4), False),
        ({"apiVersion": "slackwater.io/v1", "kind": "Scenario"}, False),
    ],
)
def test_scenarios_are_judged_as_the_simulation_judges_them(document: object, good: bool) -> None:
    assert SCENARIO.is_valid(document) is good
    assert runs(document) is good


def test_every_key_and_event_of_a_scenario_is_in_the_schema() -> None:
    spec = printed(FileKind.SCENARIO)["properties"]["spec"]["properties"]
    assert set(spec) == {key_of(each) for each in struct_type(SpecEntry).fields}
    kinds = [each["properties"]["kind"]["const"] for each in spec["events"]["items"]["oneOf"]]
    assert kinds == list(EVENTS)


def test_a_type_that_cannot_be_told_is_a_mistake_of_ours() -> None:
    import msgspec

    class Odd(msgspec.Struct, frozen=True):
        when: bytes

    with pytest.raises(TypeError, match="no schema for"):
        struct_schema(Odd)
    assert type_schema(msgspec.inspect.type_info(bool)) == {"type": "boolean"}


def test_the_command_prints_it() -> None:
    done = slackwater("schema", "scenario")
    assert done.returncode == 0
    assert done.stdout == render_schema(FileKind.SCENARIO)
    assert slackwater("schema", "pods").returncode == 2
