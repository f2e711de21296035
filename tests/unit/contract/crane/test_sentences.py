"""The sentences about wrong objects of Crane's kinds, word by word."""

import pytest

from slackwater.contract import resources
from slackwater.contract.crane.metrics import known_names
from slackwater.contract.crane.objects import read_node_qos
from slackwater.model.problem import InvalidError
from tests.unit.contract.crane import documents as whole
from tests.unit.contract.crane.documents import READERS, Wrong, spoilt

DNS = "a DNS label: lower-case letters, digits and '-', at most 63"


def problem(wrong: Wrong) -> str:
    with pytest.raises(InvalidError) as caught:
        READERS[wrong.kind](wrong.document(), "file")
    return str(caught.value)


RULE = ("spec", "rules", 0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            Wrong(resources.AVOIDANCE_ACTIONS, ("spec", "coolDownSeconds"), 0),
            "spec.coolDownSeconds is 0, but must be a whole number, 1 to 2147483647",
        ),
        (
            Wrong(resources.AVOIDANCE_ACTIONS, ("spec", "coolDownSeconds"), "5m"),
            "spec.coolDownSeconds is '5m', but must be a whole number, 1 to 2147483647",
        ),
        (
            Wrong(resources.AVOIDANCE_ACTIONS, ("spec", "description"), "x" * 1025),
            f"spec.description is '{'x' * 76}..., but must be a text of at most 1024 characters",
        ),
        (
            Wrong(resources.AVOIDANCE_ACTIONS, ("spec",), whole.ABSENT),
            "spec is missing, but must be a mapping",
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "name"), "aaa.bbb"),
            f"spec.rules[0].name is 'aaa.bbb', but must be {DNS}",
        ),
        (
            Wrong(resources.NODE_QOS, ("metadata", "name"), "a.b"),
            f"metadata.name is 'a.b', but must be {DNS}",
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "actionName"), whole.ABSENT),
            f"spec.rules[0].actionName is missing, but must be {DNS}",
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "strategy"), "none"),
            "spec.rules[0].strategy is 'none', but must be one of None, Preview",
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "metricRule", "value"), -1),
            (
                "spec.rules[0].metricRule.value is -1, but must be a quantity above 0 such as "
                "4000, 1500m or 4k"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "metricRule", "value"), "0"),
            (
                "spec.rules[0].metricRule.value is '0', but must be a quantity above 0 such as "
                "4000, 1500m or 4k"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "metricRule", "name"), "cpu"),
            (
                f"spec.rules[0].metricRule.name is 'cpu', but must be one of {known_names()}, "
                "or the name of an EnsuranceMetric"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, (*RULE, "restoredThreshold"), 2),
            (
                "spec.rules[0].restoredThreshold is 2, but must be restoreThreshold's 3, of which "
                "it is another spelling"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "rules"), []),
            "spec.rules is a list of 0, but must be a list of 1 to 24 elements",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "rules", 2), whole.RULE),
            (
                "spec.rules[2].name is 'cpu-usage', but must be another name: spec.rules[0] has it "
                "already"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "nodeQualityProbe"), {}),
            (
                "the kind of spec.nodeQualityProbe is neither, but must be one of httpGet and "
                "nodeLocalGet"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "nodeQualityProbe"), {"httpGet": {"port": "web"}}),
            (
                "spec.nodeQualityProbe.httpGet.port is 'web', but must be a number: a node's ports "
                "have no names"
            ),
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "selector", "matchLabels"), {1: "a"}),
            "a key of file: NodeQOS waterline: spec.selector.matchLabels is 1, but must be a text",
        ),
        (
            Wrong(resources.NODE_QOS, ("spec", "selector", "matchLabels"), {"a b": "a"}),
            (
                "spec.selector.matchLabels['a b']: key is 'a b', but must be a label's key such as "
                "team or example.com/team"
            ),
        ),
        (
            Wrong(
                resources.POD_QOS,
                ("spec", "resourceQOS", "netIOQOS", "containersPriority"),
                {f"c{count}": 1 for count in range(65)},
            ),
            (
                "spec.resourceQOS.netIOQOS.containersPriority is a mapping of 65, but must be a "
                "mapping of at most 64 keys"
            ),
        ),
        (
            Wrong(
                resources.POD_QOS,
                ("spec", "scopeSelector", "matchExpressions", 1, "values"),
                ["3000-1000"],
            ),
            (
                "spec.scopeSelector.matchExpressions[1].values[0] is '3000-1000', but must be a "
                "priority such as 1000, or a range such as 1000-3000"
            ),
        ),
        (
            Wrong(
                resources.TIME_SERIES_PREDICTIONS,
                ("spec", "predictionMetrics", 0, "expressionQuery"),
                whole.ABSENT,
            ),
            (
                "spec.predictionMetrics[0].expressionQuery is missing, but must be there with the "
                "type ExpressionQuery"
            ),
        ),
        (
            Wrong(
                resources.CRANE_TOPOLOGIES, ("zones", 0, "resources", "capacity", "cpu"), "8 CPUs"
            ),
            (
                "zones[0].resources.capacity.cpu is '8 CPUs', but must be a quantity such as 4000, "
                "1500m or 4k"
            ),
        ),
    ],
    ids=lambda each: each.id if isinstance(each, Wrong) else "",
)
def test_sentences(wrong: Wrong, told: str) -> None:
    name = wrong.document()["metadata"]["name"]
    source = f"file: {wrong.kind.kind} {'default/' if wrong.kind.namespaced else ''}{name}: "
    assert problem(wrong) == (told if told.startswith("a key") else source + told)


def test_everything_that_is_wrong_is_told() -> None:
    document = spoilt(whole.NODE_QOS, (*RULE, "avoidanceThreshold"), 0)
    document = spoilt(document, (*RULE, "strategy"), "Now")
    with pytest.raises(InvalidError) as caught:
        read_node_qos(document, "file")
    assert len(caught.value.problems) == 2
