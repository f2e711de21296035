"""Whom a disruption budget covers."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.decoding import decode_struct
from slackwater.contract.disruption_budget import DisruptionBudget
from slackwater.model.problem import InvalidError
from tests.unit.contract.served import budget

WEB = {"app": "web", "tier": "a"}


def read(document: dict[str, Any]) -> DisruptionBudget:
    return decode_struct(msgspec.json.encode(document), DisruptionBudget, "pdb")


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "b"}}, False),
        (expression("tier", "In", "a", "b"), True),
        (expression("tier", "NotIn", "a"), False),
        (expression("tier", "Exists"), True),
        (expression("canary", "DoesNotExist"), True),
        ({"matchLabels": {"app": "web"}, **expression("tier", "In", "b")}, False),
        # policy/v1: an empty selector is everybody, none is nobody.
        ({}, True),
        (None, False),
    ],
)
def test_whom_it_covers(selector: dict[str, Any] | None, covers: bool) -> None:
    assert read(budget("web", selector, 1)).covers(WEB) is covers


def test_what_it_allows() -> None:
    made = budget("web", {}, 3)
    assert read(made).status.disruptions_allowed == 3
    del made["status"]
    assert read(made).status.disruptions_allowed == 0  # its controller has not come by yet


def test_what_cannot_be_read_is_one_sentence() -> None:
    with pytest.raises(InvalidError) as caught:
        read(budget("web", {"matchLabels": "app=web"}, 1))
    assert str(caught.value) == (
        "pdb: spec.selector.matchLabels is 'app=web', but must be a mapping"
    )
