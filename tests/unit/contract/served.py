"""Objects of apps/v1, autoscaling/v2 and v1 as an API server has them, for tests of a rotation."""

from typing import Any

Object = dict[str, Any]
BEGAN = "2026-11-17T10:00:00Z"


def meta(name: str, owner: Object | None = None, **more: Any) -> Object:
    """`owner` is the object that is its controller."""
    made = {"name": name, "namespace": "shop", "uid": f"uid-{name}", **more}
    if owner is not None:
        head = owner["metadata"]
        made["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner["kind"],
                "name": head["name"],
                "uid": head["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return made


def deployment(name: str = "web", replicas: int = 6, **more: Any) -> Object:
    """At rest. `status` and `spec` replace single fields; the rest is metadata's."""
    status, spec = more.pop("status", {}), more.pop("spec", {})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(name, generation=3, resourceVersion="77", **more),
        "spec": {"replicas": replicas, **spec},
        "status": {
            "observedGeneration": 3,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "conditions": [{"type": "Available", "status": "True"}],
            **status,
        },
    }


def stateful_set(name: str = "db", replicas: int = 3, **more: Any) -> Object:
    made = deployment(name, replicas, **more)
    revisions = {"currentRevision": f"{name}-1", "updateRevision": f"{name}-1"}
    return {**made, "kind": "StatefulSet", "status": {**revisions, **made["status"]}}


def replica_set(name: str, owner: Object | None = None, replicas: int = 6) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta(name, owner, generation=1),
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "replicas": replicas},
    }


def cpu(name: str, request: str = "", limit: str = "", **more: Any) -> Object:
    """A container."""
    asked = {"requests": {"cpu": request}} if request else {}
    allowed = {"limits": {"cpu": limit}} if limit else {}
    return {"name": name, "resources": {**asked, **allowed}, **more}


def owned_pod(name: str, owner: Object | None = None, **more: Any) -> Object:
    """Running, Ready and old. `spec` and `status` replace single fields."""
    status, spec = more.pop("status", {}), more.pop("spec", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, owner, creationTimestamp=BEGAN, **more),
        "spec": {"nodeName": "n1", "containers": [cpu("web", "1")], **spec},
        "status": {
            "phase": "Running",
            "startTime": BEGAN,
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }


def cpu_metric(value: int | str = 70, container: str = "", kind: str = "") -> Object:
    """A number is a utilization in percent, a text an average value; `kind` calls it otherwise."""
    if isinstance(value, int):
        target: Object = {"type": kind or "Utilization", "averageUtilization": value}
    else:
        target = {"type": kind or "AverageValue", "averageValue": value}
    if container:
        measured = {"name": "cpu", "container": container, "target": target}
        return {"type": "ContainerResource", "containerResource": measured}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def autoscaler(
    name: str = "web",
    scales: str = "Deployment/web",
    *metrics: Object,
    desired: int = 6,
    current: int = 6,
    group: str = "apps/v1",
) -> Object:
    kind, _, target = scales.partition("/")
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta(name),
        "spec": {
            "scaleTargetRef": {"apiVersion": group, "kind": kind, "name": target},
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": list(metrics) or [cpu_metric()],
        },
        # As the server has it before there are metrics: with a null.
        "status": {
            "currentReplicas": current,
            "desiredReplicas": desired,
            "currentMetrics": None,
        },
    }


def budget(name: str, selector: Object | None, allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(name),
        "spec": {"maxUnavailable": 1, "selector": selector},
        "status": {"disruptionsAllowed": allowed, "expectedPods": 6},
    }


def fleet(count: int = 6, **more: Any) -> list[Object]:
    """A Deployment `web`, then its set, then its pods."""
    top = deployment("web", **more)
    middle = replica_set("web-1", top)
    labels = {"app": "web"}
    return [top, middle, *(owned_pod(f"web-1-{n}", middle, labels=labels) for n in range(count))]
