"""Annotations that keep a pod or a workload where it is."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import parse_bool
from slackwater.contract.kubernetes_pod import MIRROR
from slackwater.contract.owned_pod import OwnedPod
from slackwater.rebalancer.cluster_reader import (
    EVICT,
    PREFER_NO_EVICTION,
    ROTATE,
    pod_held_back,
    workload_opted_out,
)
from tests.unit.contract.served import owned_pod, replica_set

BAD = (
    "its annotation slackwater.io/rotate is 'no', but must be true or false (1, t, T, TRUE and "
    "True are true, their opposites false)"
)


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({}, ""),
        ({"other": "false"}, ""),
        ({ROTATE: "true"}, ""),
        ({ROTATE: "1"}, ""),
        ({ROTATE: "false"}, "its annotation slackwater.io/rotate is 'false'"),
        ({ROTATE: "F"}, "its annotation slackwater.io/rotate is 'F'"),
        ({ROTATE: "no"}, BAD),
        # The descheduler's are the pods' alone.
        ({PREFER_NO_EVICTION: ""}, ""),
        ({EVICT: "false"}, ""),
    ],
)
def test_workloads(annotations: dict[str, str], told: str) -> None:
    assert workload_opted_out(annotations) == told


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({}, ""),
        ({ROTATE: "true"}, ""),
        ({ROTATE: "false"}, "its annotation slackwater.io/rotate is 'false'"),
        ({ROTATE: "no"}, BAD),
        ({PREFER_NO_EVICTION: ""}, f"it has the annotation {PREFER_NO_EVICTION}"),
        # It is there: its value does not count.
        ({PREFER_NO_EVICTION: "false"}, f"it has the annotation {PREFER_NO_EVICTION}"),
        ({EVICT: "false"}, f"its annotation {EVICT} is 'false'"),
        # Its presence means that the pod may go, whatever it says.
        ({EVICT: "true"}, ""),
        ({EVICT: ""}, ""),
        ({EVICT: "whatever"}, ""),
        ({ROTATE: "true", EVICT: "false"}, f"its annotation {EVICT} is 'false'"),
        ({MIRROR: "x"}, "it is a static pod, which its node alone decides on"),
    ],
)
def test_pods(annotations: dict[str, str], told: str) -> None:
    made = owned_pod("a", replica_set("web-1"), annotations=annotations)
    assert pod_held_back(msgspec.convert(made, OwnedPod)) == told


@given(st.text(max_size=200))
def test_only_true_lets_go(value: str) -> None:
    told = workload_opted_out({ROTATE: value})
    assert (told == "") is (parse_bool(value) is True)
    assert "\n" not in told
