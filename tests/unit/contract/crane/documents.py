"""Whole objects of each kind that we define, with every field that it has, and spoilt ones.

The unit tests hold these against contract.crane.objects, the tests in a cluster against the API
server: what one of them refuses, the other must refuse too.
"""

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from slackwater.contract import resources
from slackwater.contract.crane.objects import (
    read_avoidance_action,
    read_node_qos,
    read_node_qos_ensurance_policy,
    read_pod_qos,
    read_time_series_prediction,
)
from slackwater.contract.ensurance_metric import read_ensurance_metric
from slackwater.contract.resources import Resource
from slackwater.contract.topology import read_crane_topology, read_node_topology

Document = dict[str, Any]
Path = tuple[str | int, ...]

READERS: dict[Resource, Callable[[object, str], Any]] = {
    resources.AVOIDANCE_ACTIONS: read_avoidance_action,
    resources.NODE_QOS: read_node_qos,
    resources.NODE_QOS_ENSURANCE_POLICIES: read_node_qos_ensurance_policy,
    resources.POD_QOS: read_pod_qos,
    resources.ENSURANCE_METRICS: read_ensurance_metric,
    resources.TIME_SERIES_PREDICTIONS: read_time_series_prediction,
    resources.CRANE_TOPOLOGIES: read_crane_topology,
    resources.NODE_TOPOLOGIES: read_node_topology,
}

_SELECTOR = {
    "matchLabels": {"pool": "batch"},
    "matchExpressions": [
        {"key": "example.com/zone", "operator": "In", "values": ["a", "b"]},
        {"key": "spot", "operator": "DoesNotExist"},
    ],
}
_HTTP_GET = {
    "port": 8080,
    "host": "127.0.0.1",
    "path": "/metrics",
    "scheme": "HTTP",
    "httpHeaders": [{"name": "accept", "value": "text/plain"}],
}
RULE: Document = {
    "name": "cpu-usage",
    "avoidanceThreshold": 2,
    "restoreThreshold": 3,
    "restoredThreshold": 3,
    "actionName": "throttle",
    "strategy": "Preview",
    "metricRule": {"name": "cpu_total_usage", "value": 6000, "selector": _SELECTOR},
}
_PROBE = {"timeoutSeconds": 10, "nodeLocalGet": {"localCacheTTLSeconds": 60}}
_AMOUNT = {"cpu": "3500m", "memory": "16Gi", "pods": 110}
_MARGIN = {"marginFraction": "0.2"}


def _object(kind: Resource, name: str, **content: Any) -> Document:
    """Through JSON and back, as some parts above are in several places."""
    metadata: Document = {"name": name}
    if kind.namespaced:
        metadata["namespace"] = "default"
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
    copied: Document = msgspec.json.decode(msgspec.json.encode(whole))
    return copied


ACTION = _object(
    resources.AVOIDANCE_ACTIONS,
    "throttle",
    spec={
        "coolDownSeconds": 120,
        "throttle": {
            "cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 20},
            "memoryThrottle": {"forceGC": True},
        },
        "eviction": {"terminationGracePeriodSeconds": 30},
        "description": "throttle, then evict",
    },
)
NODE_QOS = _object(
    resources.NODE_QOS,
    "waterline",
    spec={
        "selector": _SELECTOR,
        "nodeQualityProbe": _PROBE,
        "rules": [
            RULE,
            {**RULE, "name": "cpu", "metricRule": {"name": "cpu_load_1_min", "value": "4k"}},
        ],
        "elasticCpuLimit": {
            "elasticNodeCpuLimit": {"percent": 80},
            "elasticCoreCpuLimit": [{"coreNum": "0-3", "percent": 50}],
            "elasticCoreCpuLimitPeriod": [
                {"offlineCpuLimit": "1:00-2:00", "coreNum": "0", "percent": 50}
            ],
            "elasticCpuAvoidance": {"enable": True},
        },
        "memLimit": {"pageCacheLimitGlobal": True, "pageCacheLimitRetryTimes": 3},
        "memoryCompression": {"enable": True},
        "netLimits": {"rxBpsMin": 1, "rxBpsMax": 2, "txBpsMin": 3, "txBpsMax": 4},
    },
)
POLICY = _object(
    resources.NODE_QOS_ENSURANCE_POLICIES,
    "waterline1",
    spec={"selector": _SELECTOR, "nodeQualityProbe": _PROBE, "objectiveEnsurances": [RULE]},
)
POD_QOS = _object(
    resources.POD_QOS,
    "batch",
    spec={
        "allowedActions": ["throttle", "eviction"],
        "labelSelector": _SELECTOR,
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "QOSClass", "operator": "In", "values": ["BestEffort", "Burstable"]},
                {"scopeName": "Priority", "operator": "In", "values": ["0-1000", "-5"]},
                {"scopeName": "Namespace", "operator": "NotIn", "values": ["kube-system"]},
            ]
        },
        "podQualityProbe": {"httpGet": _HTTP_GET, "timeoutSeconds": 1},
        "resourceQOS": {
            "cpuQOS": {
                "cpuPriority": 7,
                "containerPriority": {"main": 1},
                "cpuBurst": {"burstQuota": "100"},
                "htIsolation": {"enable": False},
                "cpuSet": {"cpuSet": "exclusive"},
                "rdt": {"l3": {"0": "ff"}, "mb": {"0": "10"}},
                "containerRdt": {"main": {"l3": {"0": "ff"}, "mb": {"0": "10"}}},
            },
            "memoryQOS": {
                "memPriority": 3,
                "memAsyncReclaim": {"asyncRatio": 1, "asyncDistanceFactor": 2},
                "memWatermark": {"watermarkRatio": 5},
                "memPageCacheLimit": {"pageCacheMaxRatio": 20, "pageCacheReclaimRatio": 5},
                "memoryCompression": {
                    "enable": True,
                    "compressionLevel": 4,
                    "preference": "FileOnly",
                    "oversold": "None",
                },
            },
            "netIOQOS": {
                "netIOPriority": 1,
                "containersPriority": {"main": 2},
                "netIOLimits": {"rxBps": 1, "txBps": 2},
                "devNetIOLimits": {"eth0": {"rxBps": 1, "txBps": 2}},
                "whitelistPorts": {"lports": "80", "rports": "443"},
            },
            "diskIOQOS": {
                "diskIOWeight": {"weight": 100},
                "diskIOLimit": {"readIOps": 1, "writeIOps": 2, "readBps": 3, "writeBps": 4},
            },
        },
    },
)
METRIC = _object(
    resources.ENSURANCE_METRICS,
    "queue-depth",
    spec={
        "source": {
            "promql": {
                "url": "http://prometheus.monitoring:9090",
                "query": 'queue_length{node="$(NODE_NAME)"}',
                "bearerTokenFile": "prometheus",
            },
            "periodSeconds": 30,
            "timeoutSeconds": 5,
            "maxAgeSeconds": 90,
        },
        "actionPriority": 7,
        "sort": [
            {"by": "classAndPriority", "order": "Ascending"},
            {"by": "ownValue", "order": "Descending"},
        ],
        "throttleable": True,
        "throttleQuantified": True,
        "evictable": True,
        "evictQuantified": True,
        "release": "ownValue",
        "description": "messages that wait",
    },
)
#: Other sources of it.
METRIC_SOURCES: tuple[Document, ...] = (
    {"probe": {"kind": "PodQOS", "name": "workers"}, "series": "queue_length"},
    {"httpGet": _HTTP_GET, "series": "request_seconds:p99"},
    {"file": {"name": "queue.prom"}, "series": "queue_length"},
    {"pressure": {"selector": _SELECTOR}},
    {"pressure": {}},
)
PREDICTION = _object(
    resources.TIME_SERIES_PREDICTIONS,
    "noderesource-node1",
    spec={
        "targetRef": {
            "kind": "Node",
            "name": "node1.example.com",
            "namespace": "",
            "apiVersion": "v1",
            "uid": "",
            "resourceVersion": "",
            "fieldPath": "",
        },
        "predictionWindowSeconds": 3600,
        "predictionMetrics": [
            {
                "resourceIdentifier": "cpu",
                "type": "ExpressionQuery",
                "resourceQuery": "cpu",
                "expressionQuery": {"expression": "sum(node_load1)"},
                "metricQuery": {
                    "metricName": "m",
                    "labels": [{"key": "a", "operator": "in", "value": ["x", "y"]}],
                },
                "algorithm": {
                    "algorithmType": "dsp",
                    "dsp": {
                        "sampleInterval": "60s",
                        "historyLength": "3d",
                        "estimators": {
                            "maxValue": [_MARGIN],
                            "fft": [
                                {
                                    **_MARGIN,
                                    "lowAmplitudeThreshold": "1.0",
                                    "highFrequencyThreshold": "0.05",
                                    "minNumOfSpectrumItems": 10,
                                    "maxNumOfSpectrumItems": 20,
                                }
                            ],
                        },
                    },
                    "percentile": {
                        **_MARGIN,
                        "aggregated": True,
                        "historyLength": "1d12h",
                        "sampleInterval": "1m30s",
                        "minSampleWeight": "1e-5",
                        "targetUtilization": "1",
                        "percentile": ".99",
                        "histogram": {
                            "maxValue": "100",
                            "epsilon": "1e-10",
                            "halfLife": "24h",
                            "bucketSize": "0.1",
                            "firstBucketSize": "0.1",
                            "bucketSizeGrowthRatio": "0.05",
                        },
                    },
                    "adaptive": {"sampleInterval": "5m", "historyLength": "3d"},
                },
            },
            {
                "resourceIdentifier": "memory",
                "type": "ResourceQuery",
                "resourceQuery": "memory",
                "algorithm": {"algorithmType": "percentile"},
            },
        ],
    },
)
CRANE_TOPOLOGY = _object(
    resources.CRANE_TOPOLOGIES,
    "node1.example.com",
    craneManagerPolicy={
        "cpuManagerPolicy": "Static",
        "topologyManagerPolicy": "SingleNUMANodePodLevel",
    },
    reserved=_AMOUNT,
    attributes={"go.crane.io/reserved-system-cpus": "0,9"},
    zones=[
        {
            "name": "node0",
            "type": "Node",
            "parent": "socket0",
            "costs": [{"name": "node0", "value": 10}, {"name": "node1", "value": 21}],
            "attributes": {"key": "value"},
            "resources": {"capacity": _AMOUNT, "allocatable": _AMOUNT, "reservedCPUNums": 1},
        }
    ],
)
NODE_TOPOLOGY = _object(
    resources.NODE_TOPOLOGIES,
    "node1.example.com",
    topologyPolicies=["SingleNUMANodePodLevel"],
    attributes=[{"name": "topologyManagerScope", "value": "pod"}],
    zones=[
        {
            "name": "node-0",
            "type": "Node",
            "parent": "",
            "costs": [{"name": "node-0", "value": 10}],
            "attributes": [{"name": "raw", "value": "8"}],
            "resources": [
                {"name": "cpu", "capacity": 8, "allocatable": "7500m", "available": "2"},
                {"name": "memory", "capacity": "32Gi", "allocatable": "31Gi", "available": "1e9"},
            ],
        }
    ],
)

WHOLE: dict[Resource, Document] = {
    resources.AVOIDANCE_ACTIONS: ACTION,
    resources.NODE_QOS: NODE_QOS,
    resources.NODE_QOS_ENSURANCE_POLICIES: POLICY,
    resources.POD_QOS: POD_QOS,
    resources.ENSURANCE_METRICS: METRIC,
    resources.TIME_SERIES_PREDICTIONS: PREDICTION,
    resources.CRANE_TOPOLOGIES: CRANE_TOPOLOGY,
    resources.NODE_TOPOLOGIES: NODE_TOPOLOGY,
}


class Absent(msgspec.Struct, frozen=True):
    """In the place of a value: the field is taken out."""


ABSENT = Absent()


class Wrong(msgspec.Struct, frozen=True):
    """What is put where, and the field that a sentence about it must name; by default that one."""

    kind: Resource
    path: Path
    value: Any
    field: str = ""

    @property
    def named(self) -> str:
        return self.field or written(self.path)

    @property
    def id(self) -> str:
        return f"{self.kind.kind}-{written(self.path)}-{str(self.value)[:20]}"

    def document(self) -> Document:
        return spoilt(WHOLE[self.kind], self.path, self.value)


def written(path: Path) -> str:
    """A path as both sides write it: spec.rules[0].name."""
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    return "".join(parts).removeprefix(".")


def spoilt(document: Document, path: Path, value: Any) -> Document:
    changed = copy.deepcopy(document)
    place: Any = changed
    for each in path[:-1]:
        place = place.setdefault(each, {}) if isinstance(place, dict) else place[each]
    if isinstance(value, Absent):
        del place[path[-1]]
    elif isinstance(place, list) and path[-1] == len(place):
        place.append(copy.deepcopy(value))
    else:
        place[path[-1]] = copy.deepcopy(value)
    return changed
