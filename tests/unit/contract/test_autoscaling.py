"""Autoscalers as the API server has them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from slackwater.contract.autoscaling import Autoscaler, ResourceMetric
from slackwater.contract.decoding import decode_struct
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import ANYTHING
from tests.unit.contract.served import autoscaler, cpu_metric


def read(document: object) -> Autoscaler:
    return decode_struct(msgspec.json.encode(document), Autoscaler, "hpa")


def test_a_whole_one() -> None:
    made = read(autoscaler("keda-hpa-web", "Deployment/web", cpu_metric(70), desired=8))
    target = made.spec.scale_target_ref
    assert (made.name, made.metadata.place) == ("keda-hpa-web", "shop/keda-hpa-web")
    assert (target.api_version, target.kind, target.name) == ("apps/v1", "Deployment", "web")
    assert (made.status.desired_replicas, made.status.current_replicas) == (8, 6)


@pytest.mark.parametrize(
    ("metric", "container", "utilization", "average"),
    [
        (cpu_metric(70), "", 70, None),
        (cpu_metric("700m"), "", None, "700m"),
        (cpu_metric(80, "app"), "app", 80, None),
        (cpu_metric("1", "app"), "app", None, "1"),
    ],
)
def test_what_a_metric_measures(
    metric: dict[str, Any], container: str, utilization: int | None, average: str | None
) -> None:
    [seen] = read(autoscaler("web", "Deployment/web", metric)).spec.metrics
    measured = seen.measured()
    assert isinstance(measured, ResourceMetric)
    assert (measured.name, measured.container) == ("cpu", container)
    target = measured.target
    assert (target.average_utilization, target.average_value) == (utilization, average)


@pytest.mark.parametrize(
    "metric",
    [
        {"type": "External", "external": {"metric": {"name": "cpu"}}},
        {"type": "Pods", "pods": {"metric": {"name": "cpu"}}},
        {"type": "Resource"},
        {"type": "ContainerResource", "resource": {"name": "cpu"}},
        {},
    ],
)
def test_other_metrics_measure_nothing_of_ours(metric: dict[str, Any]) -> None:
    [seen] = read(autoscaler("web", "Deployment/web", metric)).spec.metrics
    assert seen.measured() is None


def test_nulls_count_as_absent() -> None:
    made = autoscaler()
    made["spec"]["metrics"] = None
    made["status"] = None
    made["metadata"]["labels"] = None
    seen = read(made)
    assert (seen.spec.metrics, seen.status.desired_replicas) == ((), 0)


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("spec", None, "hpa: spec is missing, but must be a mapping"),
        ("metadata", {}, "hpa: metadata.name is missing, but must be a text"),
        (
            "spec",
            {"scaleTargetRef": {"kind": "Deployment", "name": 7}},
            "hpa: spec.scaleTargetRef.name is 7, but must be a text",
        ),
        (
            "status",
            {"desiredReplicas": "8"},
            "hpa: status.desiredReplicas is '8', but must be a whole number",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(part: str, value: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read({**autoscaler(), part: value})
    assert str(caught.value) == sentence


def test_what_is_no_json_is_one_sentence() -> None:
    with pytest.raises(InvalidError, match=r"^hpa is '\{', but must be JSON \(.*\)$"):
        decode_struct(b"{", Autoscaler, "hpa")


@given(ANYTHING)
def test_anything_is_an_autoscaler_or_a_sentence(value: object) -> None:
    try:
        document = msgspec.json.encode({**autoscaler(), "spec": value})
    except (TypeError, ValueError, UnicodeError):
        return
    try:
        assert read_bytes(document).spec.scale_target_ref.name is not None
    except InvalidError as error:
        assert str(error).startswith("hpa: spec")


def read_bytes(document: bytes) -> Autoscaler:
    return decode_struct(document, Autoscaler, "hpa")
