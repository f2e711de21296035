"""Every right that the plain manifests grant is used by a line of code.

The rebalancer's, which they leave out, are tried by helm in tests/cluster/test_chart_rebalancer.py.
"""

from typing import Any

import pytest
import yaml

from slackwater.cli.install import manifests
from slackwater.contract.node_interference import ANNOTATION as INTERFERENCE
from slackwater.contract.node_interference import CONDITION, EFFECTS, TAINT
from slackwater.contract.node_offer import ANNOTATION as OVERSOLD
from slackwater.contract.node_offer import OFFERABLE
from slackwater.contract.node_report import ANNOTATION as REPORT
from slackwater.contract.node_report import CONDITION as ACTING
from tests.unit.packaging.rights import USERS, Right, granted, without_user

FOUND: list[dict[str, Any]] = [each for each in yaml.safe_load_all(manifests()) if each]


def test_every_right_has_a_user() -> None:
    assert without_user(FOUND) == set()


@pytest.mark.parametrize(
    "program", ["slackwater-agent", "slackwater-manager", "slackwater-webhook"]
)
def test_every_row_is_about_a_right_that_is_granted(program: str) -> None:
    rows = {right for right in USERS if right.role == program}
    assert rows == {right for right in granted(FOUND) if right.role == program}


@pytest.mark.parametrize(
    ("resource", "verb"), [("/pods", "delete"), ("/secrets", "get"), ("/*", "get"), ("/pods", "*")]
)
def test_a_right_more_is_found(resource: str, verb: str) -> None:
    group, _, name = resource.rpartition("/")
    more = {
        "kind": "ClusterRole",
        "metadata": {"name": "slackwater-agent"},
        "rules": [{"apiGroups": [group], "resources": [name], "verbs": [verb]}],
    }
    assert without_user([*FOUND, more]) == {Right("slackwater-agent", resource, verb)}


def variables(policy: str) -> dict[str, str]:
    [found] = [
        each
        for each in FOUND
        if each["kind"] == "ValidatingAdmissionPolicy" and each["metadata"]["name"] == policy
    ]
    return {each["name"]: each["expression"] for each in found["spec"]["variables"]}


def test_the_policy_names_what_the_agent_writes_on_its_node() -> None:
    found = variables("slackwater-agent-node")
    listed = {name: yaml.safe_load(found[name]) for name in ("ourAnnotations", "sold")}
    assert {*listed["ourAnnotations"]} == {REPORT, INTERFERENCE, OVERSOLD}
    assert {*listed["sold"]} == {*OFFERABLE}
    assert {*yaml.safe_load(found["ourConditions"])} == {ACTING, CONDITION}
    assert all(effect in found["ourTaints"] for effect in (TAINT, *EFFECTS))
    assert "NoExecute" not in found["ourTaints"]
