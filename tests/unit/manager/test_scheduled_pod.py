"""What pods request of their nodes: as the scheduler counts it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.kubernetes_pod import read_pod
from slackwater.contract.pod_resources import pod_requests
from slackwater.manager.scheduled_pod import ScheduledPod, read_scheduled_pod, sum_requests
from slackwater.model.units import QuantityError

_GI = 1 << 30


def container(cpu: str | None = None, memory: str | None = None, **said: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    stated = {name: amount for name, amount in amounts.items() if amount is not None}
    return {"name": "c", "resources": {"requests": stated}, **said}


def document(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"nodeName": "n1", **spec},
    }


def read(**spec: Any) -> ScheduledPod:
    return read_scheduled_pod(msgspec.json.encode(document(**spec)))


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({}, 0, 0),
        ({"containers": [container("500m", "1Gi"), container("1")]}, 1500, _GI),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000, 0),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always"), container("3")],
            },
            3500,
            0,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}, 1250, _GI),
        ({"containers": [container()], "resources": {"requests": {"cpu": "4"}}}, 4000, 0),
        ({"containers": [container()], "resources": {"limits": {"cpu": "2"}}}, 2000, 0),
    ],
)
def test_what_a_pod_requests(spec: dict[str, Any], cpu: int, memory: int) -> None:
    assert read(**spec) == ScheduledPod("n1", cpu, memory)


def test_an_amount_that_is_none_is_refused() -> None:
    with pytest.raises(QuantityError):
        read(containers=[container("lots")])


_AMOUNTS = st.lists(st.integers(0, 4000).map(lambda milli: container(f"{milli}m")), max_size=3)


@given(_AMOUNTS, _AMOUNTS, st.integers(0, 500))
def test_it_is_what_the_contract_counts(
    main: list[dict[str, Any]], first: list[dict[str, Any]], overhead: int
) -> None:
    spec = {"containers": main, "initContainers": first, "overhead": {"cpu": f"{overhead}m"}}
    asked = pod_requests(read_pod(document(**spec), "x").resources)
    assert read(**spec) == ScheduledPod("n1", asked.cpu, asked.memory)


def test_sums_are_by_node() -> None:
    pods = [ScheduledPod("a", 1, 10), ScheduledPod("b", 2, 20), ScheduledPod("a", 4, 40)]
    assert sum_requests(pods) == {"a": {"cpu": 5, "memory": 50}, "b": {"cpu": 2, "memory": 20}}
