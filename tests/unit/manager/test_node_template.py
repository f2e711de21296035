"""The template: the seed's verbatim, one action, and one sentence about anything else."""

import pytest
import yaml

from slackwater.contract.crane.prediction import AlgorithmType, QueryType
from slackwater.manager.node_template import default_template, read_node_template
from slackwater.model.problem import InvalidError
from tests.unit.manager.predictions import SEED_TEXT


def refusal(text: str) -> str:
    with pytest.raises(InvalidError) as caught:
        read_node_template(text, "spec")
    return str(caught.value)


def test_the_seeds_template_verbatim() -> None:
    spec = read_node_template(SEED_TEXT, "spec").spec_of("node-1.example.com")
    [metric] = spec.prediction_metrics
    assert metric.expression_query is not None
    assert metric.expression_query.expression == (
        'sum(count(node_cpu_seconds_total{mode="idle",instance=~"(node-1.example.com)(:\\\\d+)?"}) '
        'by (mode, cpu)) - sum(irate(node_cpu_seconds_total{mode="idle",instance=~'
        '"(node-1.example.com)(:\\\\d+)?"}[5m]))'
    )
    assert (metric.type, metric.resource_identifier) == (QueryType.EXPRESSION, "cpu")
    assert spec.prediction_window_seconds == 3600
    target = spec.target_ref
    assert (target.kind, target.api_version, target.name) == ("Node", "v1", "node-1.example.com")


@pytest.mark.parametrize(
    "action",
    [
        "{{.metadata.name}}",
        "{{ .metadata.name }}",
        "{{\n.metadata.name\n}}",
        "x {{- .metadata.name -}} ",
    ],
)
def test_the_name_as_go_writes_it(action: str) -> None:
    text = SEED_TEXT.replace("resourceIdentifier: cpu", f"resourceIdentifier: a{action}b")
    [metric] = read_node_template(text, "spec").spec_of("n1").prediction_metrics
    assert metric.resource_identifier in ("an1b", "ax" + "n1b")


def test_a_name_that_looks_like_a_number_stays_a_text() -> None:
    text = SEED_TEXT.replace("resourceIdentifier: cpu", "resourceIdentifier: {{.metadata.name}}")
    [metric] = read_node_template(text, "spec").spec_of("1.5").prediction_metrics
    assert metric.resource_identifier == "1.5"


@pytest.mark.parametrize(
    ("action", "line", "seen"),
    [
        ("{{.metadata.labels.pool}}", 14, "{{.metadata.labels.pool}}"),
        ("{{range .status.addresses}}", 14, "{{range .status.addresses}}"),
        ("{{/* a comment */}}", 14, "{{/* a comment */}}"),
        ("{{.metadata.name | urlquery}}", 14, "{{.metadata.name | urlquery}}"),
        ("{{.metadata.name", 14, "{{"),
    ],
)
def test_any_other_action_is_one_sentence(action: str, line: int, seen: str) -> None:
    text = SEED_TEXT.replace("resourceIdentifier: cpu", f"resourceIdentifier: '{action}'")
    if action == "{{.metadata.name":
        text = text.replace("{{.metadata.name}}", "n1")
    told = refusal(text)
    assert told.startswith(f"spec:{line}, an action, is '{seen}"), told
    assert told.endswith("but must be {{.metadata.name}}, the one action that is understood")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "spec:2 is unreadable, but must be YAML or JSON"),
        ("", "spec is 0 documents, but must be one document"),
        ("[]", "spec is a list"),
        ("predictionMetrics: []\npredictionWindowSeconds: 3600", "spec: predictionMetrics"),
        (SEED_TEXT.replace("3600", "60"), "predictionWindowSeconds is 60"),
        (SEED_TEXT.replace("dsp\n", "magic\n"), "algorithmType is 'magic'"),
        ("\ue000", "private"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, said: str) -> None:
    assert said in refusal(text)


def test_ours_is_valid_and_about_both_resources() -> None:
    spec = default_template().spec_of("n1")
    assert [each.resource_identifier for each in spec.prediction_metrics] == ["cpu", "memory"]
    kinds = {each.algorithm.algorithm_type for each in spec.prediction_metrics}
    assert kinds == {AlgorithmType.ADAPTIVE}


def test_the_seed_is_what_the_manifest_says() -> None:
    """An edit of the manifest would otherwise go unnoticed here."""
    assert yaml.safe_load(SEED_TEXT)["predictionMetrics"][0]["type"] == "ExpressionQuery"
