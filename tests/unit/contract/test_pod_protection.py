"""Pods that nothing is done to for the sake of others."""

import msgspec
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
        # Anybody may write these two: they are the pod's own word.
        ({MIRROR: "0" * 32}, {}, "exempt"),
        ({MIRROR: "whatever"}, {}, "exempt"),
        ({CONFIG_SOURCE: "file"}, {}, "exempt"),
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
        ({EXEMPT: "true", MIRROR: "x"}, {"priority": 2_000_000_000}, "critical"),
    ],
)
def test_who_is_spared(annotations: dict[str, str], spec: dict[str, object], why: str) -> None:
    assert protection_of(read_pod(pod(spec, annotations=annotations), "p")) == why


def test_a_copy_that_is_believed_is_static() -> None:
    claimed = read_pod(pod({}, annotations={MIRROR: "0" * 32}), "p")
    assert protection_of(msgspec.structs.replace(claimed, cgroup_uid="0" * 32)) == "static"


def test_the_kubelets_own_object_is_static() -> None:
    """No object of the API server has a uid without dashes."""
    found = read_pod(pod({}, annotations={CONFIG_SOURCE: "file"}), "p")
    assert protection_of(msgspec.structs.replace(found, uid="0" * 32)) == "static"


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
