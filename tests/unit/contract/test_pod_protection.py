"""Pods that nothing is done to for the sake of others."""

import pytest

from slackwater.contract.kubernetes_pod import MIRROR, read_pod
from slackwater.contract.pod_protection import (
    CONFIG_SOURCE,
    EXEMPT,
    exemption_problem,
    protection_of,
)
from tests.unit.contract.documents import pod


@pytest.mark.parametrize(
    ("annotations", "spec", "why"),
    [
        ({}, {}, ""),
        ({MIRROR: "0" * 32}, {}, "static"),
        ({MIRROR: "whatever"}, {}, "static"),  # a claim that is not believed spares itself alone
        ({CONFIG_SOURCE: "file"}, {}, "static"),
        ({CONFIG_SOURCE: "api"}, {}, ""),
        ({}, {"priority": 1_999_999_999}, ""),
        ({}, {"priority": 2_000_000_000}, "critical"),
        ({}, {"priorityClassName": "system-node-critical"}, "critical"),
        ({}, {"priorityClassName": "system-cluster-critical"}, "critical"),
        ({}, {"priorityClassName": "system"}, ""),
        ({EXEMPT: "true"}, {}, "exempt"),
        ({EXEMPT: "false"}, {}, ""),
        ({EXEMPT: "yes"}, {}, "exempt"),
        ({EXEMPT: ""}, {}, "exempt"),
        ({EXEMPT: "false", MIRROR: "x"}, {"priority": 2_000_000_000}, "static"),
    ],
)
def test_who_is_spared(annotations: dict[str, str], spec: dict[str, object], why: str) -> None:
    assert protection_of(read_pod(pod(spec, annotations=annotations), "p")) == why


@pytest.mark.parametrize(("said", "told"), [("true", False), ("False", False), ("yes", True)])
def test_what_is_neither_true_nor_false_is_told(said: str, told: bool) -> None:
    problem = exemption_problem(read_pod(pod({}, annotations={EXEMPT: said}), "p"))
    assert (problem is not None) == told
    if problem is not None:
        assert problem.sentence().startswith(
            "Pod default/web: metadata.annotations['slackwater.io/exempt'] is 'yes', but must be "
            "true or false"
        )


def test_no_annotation_is_no_problem() -> None:
    assert exemption_problem(read_pod(pod({}), "p")) is None
