"""A node's prediction: which samples count, in which unit, and of which object."""

from typing import Any

import pytest

from slackwater.contract.crane.node_forecast import (
    NodePrediction,
    forecast_at,
    read_node_prediction,
)
from slackwater.contract.crane.node_reserve import read_reserve
from slackwater.model.gap import Gap
from slackwater.model.units import Ratio

NOW = 1_800_000_000
EXPRESSION = {"expression": "vector(1)"}
ALGORITHM = {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "3d"}}


def document(**said: Any) -> dict[str, Any]:
    """With cpu samples `cpu`, as (seconds from now, text); the rest by keyword."""
    metrics = [
        {
            "resourceIdentifier": name,
            "type": "ExpressionQuery",
            "expressionQuery": EXPRESSION,
            "algorithm": ALGORITHM,
        }
        for name in ("cpu", "memory")
        if name in said
    ]
    status = {
        "predictionMetrics": [
            {
                "resourceIdentifier": name,
                "ready": True,
                "prediction": [
                    {"samples": [{"timestamp": NOW + at, "value": text} for at, text in series]}
                    for series in said[name]
                ],
            }
            for name in ("cpu", "memory")
            if said.get(name)
        ]
    }
    target = {"kind": "Node", "name": "here"} | said.get("target", {})
    return {
        "apiVersion": "prediction.crane.io/v1alpha1",
        "kind": "TimeSeriesPrediction",
        "metadata": {
            "name": said.get("name", "noderesource-here"),
            "namespace": said.get("namespace", "default"),
        },
        "spec": {
            "targetRef": target,
            "predictionMetrics": metrics,
            "predictionWindowSeconds": said.get("window", 3600),
        },
        "status": status,
    }


def prediction(**said: Any) -> NodePrediction:
    found = read_node_prediction(document(**said), "t.yaml")
    assert found is not None
    return found


def cpu_of(*series: tuple[tuple[int, str], ...], **said: Any) -> int | Gap:
    return forecast_at([prediction(cpu=series, **said)], NOW).cpu


def test_samples_are_cores() -> None:
    assert cpu_of(((60, "1.50000"),)) == 1500
    assert cpu_of(((60, "0.00001"),)) == 1
    assert cpu_of(((60, "-0.10000"),)) == 0


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(-60, "9.00000"), (0, "1.00000"), (3600, "2.00000"), (3660, "9.00000")], 2000),
        ([(0, "1.00000")], 1000),
        ([(3600, "3.00000")], 3000),
    ],
)
def test_only_samples_of_the_window_count(samples: list[tuple[int, str]], expected: int) -> None:
    assert cpu_of(tuple(samples)) == expected


def test_of_several_series_the_largest_counts() -> None:
    assert cpu_of(((60, "1.00000"),), ((60, "3.00000"),)) == 3000


def test_of_several_objects_the_largest_counts() -> None:
    both = [
        prediction(cpu=[[(60, "1.00000")]]),
        prediction(cpu=[[(60, "2.00000")]], namespace="crane-system"),
    ]
    assert forecast_at(both, NOW).cpu == 2000


def test_memory_is_bytes() -> None:
    found = forecast_at([prediction(memory=[[(60, "1024.00000")]])], NOW)
    assert found.memory == 1024
    assert found.cpu == Gap("no TimeSeriesPrediction of this node names it")


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        ([[(-90, "1.00000")]], "ended 1 min ago"),
        ([[(7200, "1.00000")]], "begins only after its window of 3600 s"),
        ([], "is not predicted yet"),
        ([[]], "has no samples"),
        ([[(60, "NaN")]], "cannot be used: a sample of cpu is 'NaN', but must be a number"),
        ([[(60, "1.0"), (120, "+Inf")]], "must be a number from 0 on"),
    ],
)
def test_what_cannot_be_used_says_why(series: list[Any], reason: str) -> None:
    found = forecast_at([prediction(cpu=series)], NOW).cpu
    assert isinstance(found, Gap)
    assert found.reason.startswith("TimeSeriesPrediction default/noderesource-here ")
    assert reason in found.reason


def test_one_that_is_over_does_not_hide_another() -> None:
    both = [
        prediction(cpu=[[(-90, "9.00000")]]),
        prediction(cpu=[[(60, "2.00000")]], namespace="crane-system"),
    ]
    assert forecast_at(both, NOW).cpu == 2000


def test_no_object_is_a_gap() -> None:
    assert forecast_at([], NOW).cpu == Gap("there is no TimeSeriesPrediction of this node")


@pytest.mark.parametrize(
    "said",
    [
        {"namespace": "tenant-a"},
        {"name": "noderesource-there"},
        {"name": "mine"},
        {"target": {"kind": "Deployment"}},
    ],
)
def test_a_prediction_that_is_not_by_cranes_names_is_nobodys(said: dict[str, Any]) -> None:
    """A tenant who may create such objects in a namespace moves no node's offer."""
    assert read_node_prediction(document(cpu=[[(60, "1.00000")]], **said), "t.yaml") is None


def test_a_prediction_of_the_managers_own_template_counts() -> None:
    """It is in the namespace of the manager, which is the agent's too."""
    made = document(cpu=[[(60, "1.00000")]], namespace="slackwater-system")
    found = read_node_prediction(made, "t.yaml", "slackwater-system")
    assert found is not None
    assert found.title.startswith("TimeSeriesPrediction slackwater-system/")
    assert read_node_prediction(made, "t.yaml", "elsewhere") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%", Ratio(10, 100)),
        (" 0% ", Ratio(0, 100)),
        ("100%", Ratio(100, 100)),
        ("12.5%", Ratio(125, 1000)),
    ],
)
def test_a_reserve_is_a_share(text: str, expected: Ratio) -> None:
    assert read_reserve({"reserve.node.gocrane.io/cpu": text}) == {"cpu": expected}


@pytest.mark.parametrize("text", ["", "10", "101%", "-1%", "ten%", "1e3%"])
def test_a_bad_reserve_is_one_sentence(text: str) -> None:
    found = read_reserve({"reserve.node.gocrane.io/memory": text})["memory"]
    assert isinstance(found, Gap)
    assert "metadata.annotations[reserve.node.gocrane.io/memory]" in found.reason
    assert "but must be a share from 0% to 100%, such as 10%" in found.reason
