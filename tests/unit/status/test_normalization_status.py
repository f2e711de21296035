"""The status of CPU normalization: when it is shown, and how many nodes it names."""

from slackwater.contract.koordinator.normalization import ENABLED_LABEL, RATIO_ANNOTATION
from slackwater.contract.koordinator.slo_config import SloConfigName, read_slo_config
from slackwater.contract.kubernetes import ConfigMap
from slackwater.model.gap import Gap
from slackwater.status.api_objects import ClusterNode
from slackwater.status.normalization_status import (
    MOST_NAMED,
    NormalizationFacts,
    normalization_status,
)

NAME = SloConfigName()
ABSENT = read_slo_config(None, NAME)


def on(text: str = '{"enable": true}') -> NormalizationFacts:
    found = ConfigMap(NAME.namespace, NAME.name, {"cpu-normalization-config": text})
    return NormalizationFacts(read_slo_config(found, NAME))


def test_a_cluster_without_it_has_no_such_status() -> None:
    assert normalization_status(None, [ClusterNode("a", {})]) is None
    assert normalization_status(NormalizationFacts(ABSENT), [ClusterNode("a", {})]) is None


def test_a_label_without_a_model_is_a_problem() -> None:
    labelled = ClusterNode("a", {ENABLED_LABEL: "true"})
    found = normalization_status(NormalizationFacts(ABSENT), [labelled])
    assert found is not None
    assert found.problems == (f"node a: label {ENABLED_LABEL} is true, but there is no {NAME}",)


def test_the_first_nodes_are_named_and_the_rest_is_counted() -> None:
    nodes = [ClusterNode(f"n{number:02}", {}) for number in range(MOST_NAMED + 3)]
    found = normalization_status(on(), nodes)
    assert found is not None
    assert found.problems[0] == "node n00: there is no NodeResourceTopology n00"
    assert found.problems[MOST_NAMED:] == ("3 more nodes do not have the ratio that they should",)


def test_without_topologies_only_the_model_is_judged() -> None:
    facts = NormalizationFacts(on().config, Gap("forbidden"))
    shown = ClusterNode("a", {}, annotations={RATIO_ANNOTATION: "1.20"})
    found = normalization_status(facts, [shown])
    assert found is not None
    assert (found.ratios, found.problems) == ({"1.20": 1}, ())
