"""Rollouts in flight, by what a workload's status says."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.decoding import decode_struct
from slackwater.contract.scaled_workload import ScaledWorkload, rollout_of
from tests.unit.contract.served import deployment, replica_set, stateful_set


def rollout(document: dict[str, Any]) -> str:
    read = decode_struct(msgspec.json.encode(document), ScaledWorkload, "workload")
    return rollout_of(document["kind"], read)


UNAVAILABLE = [{"type": "Available", "status": "False"}]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, ""),
        ({"observedGeneration": 2}, "its controller has seen generation 2 of 3"),
        # The first new pods; with a surge there are more pods than wanted.
        (
            {"replicas": 7, "updatedReplicas": 1},
            "1 of 6 pods are of the newest template",
        ),
        ({"replicas": 5, "updatedReplicas": 0}, "0 of 6 pods are of the newest template"),
        # All new ones are there, an old one remains.
        ({"replicas": 7}, "1 of 7 pods are of an older template and are to go"),
        (
            {"availableReplicas": 3, "conditions": UNAVAILABLE},
            "3 of 6 pods are available, fewer than its strategy allows",
        ),
        # One that is not Ready is what a strategy allows: no rollout.
        ({"availableReplicas": 5}, ""),
        # Being scaled is no rollout: all that are there are new.
        ({"replicas": 4, "updatedReplicas": 4, "availableReplicas": 4}, ""),
        ({"replicas": 9, "updatedReplicas": 9}, ""),
    ],
)
def test_deployments(status: dict[str, Any], told: str) -> None:
    assert rollout(deployment(status=status)) == told


def test_a_deployment_scaled_to_zero_is_at_rest() -> None:
    assert rollout(deployment(replicas=0)) == ""


NEW = {"updateRevision": "db-2"}
ON_DELETE = (
    "its strategy is OnDelete and it has a new revision, which every pod that goes would come back "
    "with"
)


def strategy(kind: str, partition: int = 0) -> dict[str, Any]:
    return {"updateStrategy": {"type": kind, "rollingUpdate": {"partition": partition}}}


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({}, {}, ""),
        ({}, {"observedGeneration": 1}, "its controller has seen generation 1 of 3"),
        ({}, {**NEW, "updatedReplicas": 1}, "1 of 3 pods are of the newest revision"),
        # The last pod is new, and the controller will say so in a moment.
        ({}, {**NEW, "updatedReplicas": 3}, ""),
        # Below the partition pods keep the old revision on purpose.
        (strategy("RollingUpdate", 2), {**NEW, "updatedReplicas": 1}, ""),
        (
            strategy("RollingUpdate", 1),
            {**NEW, "updatedReplicas": 1},
            "1 of 2 pods are of the newest revision",
        ),
        (strategy("RollingUpdate", 9), {**NEW, "updatedReplicas": 0}, ""),
        (
            strategy("OnDelete"),
            {**NEW, "updatedReplicas": 0},
            ON_DELETE,
        ),
        ({}, {"availableReplicas": 2}, ""),
        ({}, {"availableReplicas": 1}, "1 of 3 pods are available"),
    ],
)
def test_stateful_sets(spec: dict[str, Any], status: dict[str, Any], told: str) -> None:
    assert rollout(stateful_set(spec=spec, status=status)) == told


def test_a_stateful_set_with_an_update_strategy_without_rolling_update() -> None:
    """OnDelete has no rollingUpdate; the server leaves it out, or says null."""
    spec = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    assert rollout(stateful_set(spec=spec)) == ""


def test_replica_sets_have_no_rollouts_but_a_controller() -> None:
    assert rollout(replica_set("web-1")) == ""
    behind = replica_set("web-1")
    behind["metadata"]["generation"] = 2
    assert rollout(behind) == "its controller has seen generation 1 of 2"


def test_a_workload_without_a_status_is_not_seen_by_its_controller() -> None:
    made = deployment()
    del made["status"]
    assert rollout(made) == "its controller has seen generation 0 of 3"
