"""The rebalancer's settings in the chart's schema are the rebalancer's settings."""

from typing import Any

import pytest
import yaml

from slackwater.model.problem import Problem
from slackwater.settings.rebalancer_document import (
    BY_KEY,
    WORKLOAD_SETTINGS,
    FileSettings,
    read_file,
)
from tools import manifests
from tools.manifests import rebalancer_schema
from tools.provision import ROOT

SCHEMA: dict[str, Any] = rebalancer_schema()
SPEC: dict[str, Any] = SCHEMA["properties"]


def flat(properties: dict[str, Any], where: str = "") -> dict[str, dict[str, Any]]:
    """By the file's key, with dots."""
    found: dict[str, dict[str, Any]] = {}
    for key, told in properties.items():
        if "properties" in told:
            found |= flat(told["properties"], f"{where}{key}.")
        else:
            found[f"{where}{key}"] = told
    return found


OF_WORKLOADS = {each.key for each in WORKLOAD_SETTINGS}
OF_A_RUN = flat({key: told for key, told in SPEC.items() if key not in ("defaults", "workloads")})
DEFAULTS = flat(SPEC["defaults"]["properties"])
LISTED = SPEC["workloads"]["items"]


def read(spec: dict[str, Any]) -> tuple[FileSettings, list[Problem]]:
    document = {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings", "spec": spec}
    problems: list[Problem] = []
    return read_file(document, "test", problems), problems


def below(key: str, value: object) -> dict[str, Any]:
    """`a.b` as a mapping in a mapping."""
    head, _, rest = key.partition(".")
    return {head: below(rest, value) if rest else value}


def test_the_schema_knows_every_setting() -> None:
    assert {*OF_A_RUN} | {*DEFAULTS} == {*BY_KEY}
    assert {*DEFAULTS} == OF_WORKLOADS
    assert {*flat(LISTED["properties"])} == OF_WORKLOADS | {"name"}
    assert LISTED["required"] == ["name"]


@pytest.mark.parametrize("key", [*OF_A_RUN, *DEFAULTS])
def test_what_the_schema_bounds_the_rebalancer_bounds_too(key: str) -> None:
    told = OF_A_RUN.get(key) or DEFAULTS[key]
    for value in good(told):
        found, problems = read(spec_of(key, value))
        assert found != FileSettings()
        assert not problems
    for value in bad(told):
        assert read(spec_of(key, value))[1]


def spec_of(key: str, value: object) -> dict[str, Any]:
    inner = below(key, value)
    return inner if key in OF_A_RUN else {"defaults": inner}


def good(told: dict[str, Any]) -> list[object]:
    """Values at the bounds."""
    if "enum" in told:
        return [*told["enum"]]
    if told["type"] == "boolean":
        return [True, False]
    return [told[end] for end in ("minimum", "maximum") if end in told]


def bad(told: dict[str, Any]) -> list[object]:
    """Just beyond them, or of another kind."""
    if told.get("pattern") == manifests._DURATION:
        return ["1", "x", 5]
    kind = told.get("type")
    if kind in ("integer", "number"):
        low = [told["minimum"] - 1] if "minimum" in told else []
        return [*low, *([told["maximum"] + 1] if "maximum" in told else []), "1", True]
    return [["another"]] if kind == "string" else ["another", 7]


@pytest.mark.parametrize(
    "where", [SPEC["defaults"], SPEC["prometheus"], SPEC["caps"], LISTED, SCHEMA]
)
def test_unknown_keys_are_refused_everywhere(where: dict[str, Any]) -> None:
    assert where["additionalProperties"] is False


def test_the_example_fits() -> None:
    """Key by key; helm itself reads the schema in tests/cluster."""
    path = ROOT / "examples" / "rebalancer" / "workloads.yaml"
    spec = yaml.safe_load(path.read_text())["spec"]
    assert {*spec} <= {*SPEC}
    assert {*spec["defaults"]} <= {*SPEC["defaults"]["properties"]}
    for workload in spec["workloads"]:
        assert {*workload} <= {*LISTED["properties"]}
    assert len(read(spec)[0].workloads) == len(spec["workloads"])
