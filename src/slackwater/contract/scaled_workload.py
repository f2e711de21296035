"""Deployments, StatefulSets and ReplicaSets: what an autoscaler scales and a rotation goes through.

Owns their field paths, and the sentence that says that a rollout is in flight.
"""

import msgspec

from slackwater.contract.object_metadata import Metadata

#: A Deployment's condition: as many pods are available as its strategy wants.
_AVAILABLE = "Available"
#: StatefulSets whose pods come back with another revision only when somebody deletes them.
_ON_DELETE = "OnDelete"
#: What the API server fills in where a spec says nothing.
_REPLICAS = 1
#: Of a StatefulSet that does not say how many may be away.
_MOST_UNAVAILABLE = 1


class Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class RollingUpdate(msgspec.Struct, frozen=True):
    """`partition`: of a StatefulSet; pods below it keep the old revision on purpose."""

    partition: int = 0


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = _REPLICAS
    update_strategy: Strategy = Strategy()


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the object's controller has seen and done. Revisions are a StatefulSet's."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


class ScaledWorkload(msgspec.Struct, frozen=True):
    """Any of the three: what one kind does not have is empty."""

    metadata: Metadata
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


def rollout_of(kind: str, workload: ScaledWorkload) -> str:
    """Why its pods are being exchanged, as a sentence; empty where they are not."""
    status, meta = workload.status, workload.metadata
    if status.observed_generation < meta.generation:
        return (
            f"its controller has seen generation {status.observed_generation} of {meta.generation}"
        )
    match kind:
        case "Deployment":
            return _deployment_rollout(workload)
        case "StatefulSet":
            return _stateful_set_rollout(workload)
        case _:
            return ""


def _deployment_rollout(workload: ScaledWorkload) -> str:
    """As `kubectl rollout status` goes: first the new pods, then the old ones, then readiness."""
    status, wanted = workload.status, workload.spec.replicas
    if status.updated_replicas < min(wanted, status.replicas):
        return f"{status.updated_replicas} of {wanted} pods are of the newest template"
    if status.replicas > status.updated_replicas:
        old = status.replicas - status.updated_replicas
        return f"{old} of {status.replicas} pods are of an older template and are to go"
    if any(each.type == _AVAILABLE and each.status == "False" for each in status.conditions):
        return (
            f"{status.available_replicas} of {wanted} pods are available, fewer than its "
            "strategy allows"
        )
    return ""


def _stateful_set_rollout(workload: ScaledWorkload) -> str:
    status, spec = workload.status, workload.spec
    if status.current_revision != status.update_revision:
        if spec.update_strategy.type == _ON_DELETE:
            return (
                "its strategy is OnDelete and it has a new revision, which every pod that goes "
                "would come back with"
            )
        wanted = max(spec.replicas - spec.update_strategy.rolling_update.partition, 0)
        if status.updated_replicas < wanted:
            return f"{status.updated_replicas} of {wanted} pods are of the newest revision"
    if status.available_replicas < min(spec.replicas, status.replicas) - _MOST_UNAVAILABLE:
        return f"{status.available_replicas} of {spec.replicas} pods are available"
    return ""
