"""Misspelt fields: told with the object and the path; fields that are known are not."""

import copy
from typing import Any

import pytest

from slackwater.contract.crane.unknown_fields import find_unknown_fields
from slackwater.contract.resources import Resource
from tests.unit.contract.crane import documents as whole
from tests.unit.contract.crane.documents import WHOLE


@pytest.mark.parametrize("kind", list(WHOLE), ids=lambda kind: str(kind.kind))
def test_every_field_of_a_whole_object_is_known(kind: Resource) -> None:
    assert find_unknown_fields(kind.kind, WHOLE[kind], "file") == ()


def spoil(document: dict[str, Any], *path: str | int) -> dict[str, Any]:
    """With a key more."""
    found = copy.deepcopy(document)
    place: Any = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = 3
    return found


@pytest.mark.parametrize(
    ("document", "path", "where"),
    [
        (whole.NODE_QOS, ("spec", "rules", 1, "avoidanceTreshold"), "NodeQOS waterline: spec"),
        (whole.NODE_QOS, ("spec", "nodeQualityProbe", "nodeLocalGet", "ttl"), "NodeQOS waterline"),
        (whole.POLICY, ("spec", "rules"), "NodeQOSEnsurancePolicy waterline1: spec"),
        (whole.ACTION, ("spec", "throttle", "cpuThrottle", "minCpuRatio"), "AvoidanceAction "),
        (whole.ACTION, ("cooldown",), "AvoidanceAction throttle: "),
        (whole.POD_QOS, ("spec", "resourceQOS", "cpuQOS", "containerRdt", "main", "l4"), "PodQOS "),
        (whole.PREDICTION, ("spec", "predictionMetrics", 0, "a key"), "TimeSeriesPrediction "),
    ],
)
def test_a_misspelt_field(
    document: dict[str, Any], path: tuple[str | int, ...], where: str
) -> None:
    [told] = find_unknown_fields(document["kind"], spoil(document, *path), "file")
    assert told.startswith("file: ")
    assert where in told
    assert str(path[-1]) in told
    assert told.endswith(" is not known and has no effect")


def test_what_the_server_and_other_kinds_have_is_nobodys_mistake() -> None:
    document = {**whole.ACTION, "status": {"x": 1}, "metadata": {"name": "a", "managedFields": []}}
    assert find_unknown_fields("AvoidanceAction", document, "file") == ()
    assert find_unknown_fields("Secret", {"kind": "Secret"}, "file") == ()


def test_of_many_the_first_are_told_and_the_others_counted() -> None:
    spec = {**whole.ACTION["spec"], **{f"x{n}": 1 for n in range(20)}}
    told = find_unknown_fields("AvoidanceAction", {**whole.ACTION, "spec": spec}, "file")
    assert len(told) == 8
    assert told[-1] == (
        "file: AvoidanceAction throttle: spec.x7 is not known and has no effect, nor have 12 more"
    )
