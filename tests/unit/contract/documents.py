"""Plain documents, as a JSON or YAML parser makes them, for the tests of this folder."""

from typing import Any

from hypothesis import strategies as st

#: Whatever a parser of JSON or YAML can make, and a little more.
ANYTHING: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.binary(max_size=4)
    | st.sampled_from(["true", "1", "250m", "2Gi", "In", "Always", "Running", "cpu,memory"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=8,
)

POD_KEYS = [
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "kubernetes.io/batch-cpu",
    "priority",
    "nodeName",
    "overhead",
    "qosClass",
    "phase",
    "containerStatuses",
    "initContainerStatuses",
    "containerID",
    "restartPolicy",
    "kind",
    "allocatable",
    "capacity",
    "deletionTimestamp",
    "creationTimestamp",
    "startTime",
    "podIP",
    "ports",
    "containerPort",
    "priorityClassName",
    "data",
    "items",
]
CONFIG_KEYS = [
    "globalConfig",
    "nodesConfig",
    "GLOBALCONFIG",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "enable",
    "Enable",
    "cpuThrottlingConfig",
    "cpuThrottlingThreshold",
    "cpuJitterLimitPercent",
    "cpuRecoverLimitPercent",
    "evictingConfig",
    "evictingCPUHighWatermark",
    "evictingCPULowWatermark",
    "networkQosConfig",
    "qosCheckInterval",
    "overSubscriptionConfig",
    "overSubscriptionTypes",
    "other",
]


def shaped(keys: list[str]) -> st.SearchStrategy[object]:
    """Documents with the right keys in all the wrong places."""
    return st.recursive(
        ANYTHING,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=6)
        ),
        max_leaves=20,
    )


def pod(spec: object = None, status: object = None, **metadata: object) -> dict[str, Any]:
    """A pod called default/web with uid abc, unless told otherwise."""
    named = {"name": "web", "namespace": "default", "uid": "abc", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec, "status": status}


def container(name: str = "c", cpu: object = None, memory: object = None) -> dict[str, Any]:
    """A container with requests only."""
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def limited(name: str, cpu: object, memory: object) -> dict[str, Any]:
    """A container with limits only."""
    return {"name": name, "resources": {"limits": {"cpu": cpu, "memory": memory}}}
