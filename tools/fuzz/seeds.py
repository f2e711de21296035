"""Good inputs that bad ones are made of: the examples, and one whole object of each kind."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RECORDING = ROOT / "tests/unit/agent/recordings/standalone.jsonl"

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "batch-0", "namespace": "jobs", "uid": "0b5e1b7c-0000-4000-8000-000000000001",
        "resourceVersion": "17", "generation": 2, "creationTimestamp": "2026-11-01T10:00:00Z",
        "labels": {"app": "batch", "slackwater.io/qos": "be"},
        "annotations": {
            "volcano.sh/qos-level": "BE", "volcano.sh/colocation-config": '{"memoryQos":{}}',
            "kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef",
            "kubernetes.io/config.source": "file",
        },
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "worker", "uid": "n-1", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "worker", "priority": 1000, "priorityClassName": "batch",
        "overhead": {"cpu": "10m"},
        "initContainers": [{"name": "init", "restartPolicy": "Always", "resources": {}}],
        "containers": [
            {
                "name": "main", "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {
                    "requests": {"cpu": "500m", "memory": "1Gi", "kubernetes.io/batch-cpu": "500"},
                    "limits": {"cpu": "1", "memory": "2Gi", "kubernetes.io/batch-cpu": "1k"},
                },
            }
        ],
    },
    "status": {
        "phase": "Running", "qosClass": "Burstable", "podIP": "10.0.0.7",
        "startTime": "2026-11-01T10:00:01Z",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {
                "name": "main", "containerID": "containerd://abc", "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "a\nb"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "x"}},
            }
        ],
    },
}  # fmt: skip
REPORT = (
    '{"version":"0.9","since":"2026-11-01T10:00:00Z","period":"1s","holding":2,"bestEffort":'
    '{"quota":"1200m","used":"800m"},"policies":{"throttle":"","qos":"off"},"rules":{"a/b":[]}}'
)
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "worker", "uid": "n-1", "labels": {"volcano.sh/oversubscription": "true"},
        "annotations": {
            "slackwater.io/report": REPORT, "slackwater.io/node-interference": "taint,condition",
            "reserve.node.gocrane.io/cpu": "10%", "reserve.node.gocrane.io/memory": "5.5%",
            "node.koordinator.sh/cpu-normalization-ratio": "1.20",
            "node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.80,"memory":1}',
        },
    },
    "spec": {"taints": [{"key": "slackwater.io/interference", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "8", "memory": "32Gi", "gocrane.io/cpu": "4", "pods": "110"},
        "allocatable": {"cpu": "7900m", "memory": "31Gi", "gocrane.io/cpu": "4", "pods": "110"},
        "conditions": [
            {
                "type": "SlackwaterActing", "status": "True", "reason": "Released",
                "message": "it has put everything back",
                "lastTransitionTime": "2026-11-01T10:00:00Z",
            }
        ],
    },
}  # fmt: skip
COLOCATION = (
    '{"globalConfig":{"cpuBurstConfig":{"enable":true},"memoryQosConfig":{"enable":true,'
    '"highRatio":100},"overSubscriptionConfig":{"enable":true,"overSubscriptionTypes":"cpu,memory"}'
    '},"nodesConfig":[{"selector":{"matchLabels":{"a":"b"}},"cpuQosConfig":{"enable":false}}]}'
)
SLO = (
    '{"enable":true,"defaultRatio":1.1,"ratioModel":{"Xeon":{"baseRatio":1.5,'
    '"hyperThreadEnabledRatio":1.0,"turboEnabledRatio":1.8}},"nodeConfigs":[{"name":"n",'
    '"nodeSelector":{"matchLabels":{"a":"b"}},"enable":false}]}'
)
AMPLIFICATION = '{"enable":true,"resourceAmplificationRatio":{"cpu":1.5,"memory":1.2}}'
CONFIG_MAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "config", "namespace": "volcano-system", "uid": "c-1"},
    "data": {
        "volcano-agent.conf": COLOCATION,
        "settings.yaml": (EXAMPLES / "node/settings.yaml").read_text(),
        "cpu-normalization-config": SLO, "resource-amplification-config": AMPLIFICATION,
        "spec": "predictionMetrics: []",
    },
}  # fmt: skip
TOPOLOGY: dict[str, Any] = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {
        "name": "worker", "labels": {"app.kubernetes.io/managed-by": "slackwater"},
        "annotations": {
            "node.koordinator.sh/cpu-basic-info": '{"cpuModel":"Xeon","hyperThreadEnabled":true,'
            '"turboEnabled":false,"catL3CbmMask":"fff","vendorId":"GenuineIntel"}'
        },
    },
    "topologyPolicies": ["None"],
    "attributes": [{"name": "a", "value": "b"}],
    "zones": [
        {
            "name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10}],
            "resources": [
                {"name": "cpu", "capacity": "8", "allocatable": "8", "available": "7.5"}
            ],
            "attributes": [{"name": "x", "value": "y"}],
        }
    ],
}  # fmt: skip
CRANE_TOPOLOGY: dict[str, Any] = {
    "apiVersion": "topology.crane.io/v1alpha1",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "worker"},
    "craneManagerPolicy": {"cpuManagerPolicy": "Static", "topologyManagerPolicy": "None"},
    "reserved": {"cpu": "100m"},
    "attributes": {"a": "b"},
    "zones": [
        {
            "name": "node0", "type": "Node", "costs": [{"name": "node0", "value": 10}],
            "attributes": {"x": "y"},
            "resources": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"},
                          "reservedCPUNums": 1},
        }
    ],
}  # fmt: skip
_METRIC: dict[str, Any] = {
    "resourceIdentifier": "cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
    "algorithm": {
        "algorithmType": "percentile",
        "percentile": {
            "aggregated": False, "historyLength": "24h", "sampleInterval": "1m",
            "percentile": "0.99", "marginFraction": "0.1",
            "histogram": {"maxValue": "10000", "epsilon": "1e-10", "halfLife": "12h",
                          "bucketSize": "10", "firstBucketSize": "1"},
        },
        "dsp": {
            "sampleInterval": "60s", "historyLength": "7d",
            "estimators": {"fft": [{"marginFraction": "0.2", "minNumOfSpectrumItems": 3}],
                           "maxValue": [{"marginFraction": "0.1"}]},
        },
    },
}  # fmt: skip
TEMPLATE: dict[str, Any] = {"predictionMetrics": [_METRIC], "predictionWindowSeconds": 3600}
PREDICTION: dict[str, Any] = {
    "apiVersion": "prediction.crane.io/v1alpha1",
    "kind": "TimeSeriesPrediction",
    "metadata": {
        "name": "noderesource-worker", "namespace": "crane-system", "uid": "p-1", "generation": 3,
        "labels": {"app.kubernetes.io/managed-by": "slackwater-manager"},
        "ownerReferences": [{"kind": "Node", "name": "worker", "uid": "n-1", "controller": True}],
    },
    "spec": {**TEMPLATE, "targetRef": {"apiVersion": "v1", "kind": "Node", "name": "worker"}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "m",
                        "lastTransitionTime": "2026-11-01T10:00:00Z"}],
        "predictionMetrics": [
            {
                "resourceIdentifier": "cpu", "ready": True,
                "prediction": [
                    {"labels": [{"name": "a", "value": "b"}],
                     "samples": [{"value": "1.5", "timestamp": 1_780_000_000}]}
                ],
            }
        ],
    },
}  # fmt: skip
NODE_QOS: dict[str, Any] = {
    "apiVersion": "ensurance.crane.io/v1alpha1",
    "kind": "NodeQOS",
    "metadata": {"name": "queues", "generation": 1, "uid": "q-1"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "nodeQualityProbe": {"timeoutSeconds": 10, "nodeLocalGet": {"localCacheTTLSeconds": 60}},
        "rules": [
            {"name": "cpu", "metricRule": {"name": "cpu_total_usage", "value": 5000},
             "avoidanceThreshold": 2, "restoreThreshold": 2, "actionName": "throttle",
             "strategy": "None"}
        ],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "a", "message": "b",
                               "lastTransitionTime": "2026-11-01T10:00:00Z"}]},
}  # fmt: skip
ENSURANCE_POLICY: dict[str, Any] = {
    **NODE_QOS,
    "kind": "NodeQOSEnsurancePolicy",
    "spec": {
        "nodeQualityProbe": {
            "httpGet": {"path": "/metrics", "port": 9100, "host": "localhost", "scheme": "HTTP"}
        },
        "objectiveEnsurances": [
            {"name": "cpu", "metricRule": {"name": "cpu_total_usage", "value": "5000m"},
             "avoidanceThreshold": 2, "actionName": "throttle"}
        ],
    },
}  # fmt: skip
ACTION: dict[str, Any] = {
    **NODE_QOS,
    "kind": "AvoidanceAction",
    "spec": {
        "description": "d", "coolDownSeconds": 300,
        "throttle": {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 20}},
        "eviction": {"terminationGracePeriodSeconds": 30},
    },
}  # fmt: skip
POD_QOS: dict[str, Any] = {
    **NODE_QOS,
    "kind": "PodQOS",
    "spec": {
        "allowedActions": ["throttle"], "labelSelector": {"matchLabels": {"a": "b"}},
        "scopeSelector": {"matchExpressions": [
            {"scopeName": "Priority", "operator": "In", "values": ["0-100"]}]},
        "resourceQOS": {"cpuQOS": {"cpuPriority": 7}},
        "podQualityProbes": {"httpGet": {"path": "/m", "port": "http"}},
    },
}  # fmt: skip
POD_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "config.volcano.sh/v1alpha1",
    "kind": "ColocationConfiguration",
    "metadata": {"name": "c", "namespace": "jobs", "creationTimestamp": "2026-11-01T10:00:00Z"},
    "spec": {
        "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "memoryQos": {"highRatio": 90, "lowRatio": 20, "minRatio": 0},
    },
}
LEASE: dict[str, Any] = {
    "metadata": {"name": "l", "resourceVersion": "4"},
    "spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1,
        "acquireTime": "2026-11-01T10:00:00.000000Z", "renewTime": "2026-11-01T10:00:00.000000Z",
    },
}  # fmt: skip
REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "r-1", "kind": {"group": "", "version": "v1", "kind": "Node"},
        "subResource": "status", "operation": "UPDATE", "name": "worker",
        "userInfo": {"username": "system:node:worker"}, "object": NODE, "oldObject": NODE,
    },
}  # fmt: skip
KUBECONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "clusters": [
        {
            "name": "c",
            "cluster": {
                "server": "https://10.0.0.1:6443/path", "certificate-authority-data": "YWJj",
                "tls-server-name": "k", "proxy-url": "http://a:b@proxy:3128",
                "extensions": [
                    {"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}
                ],
            },
        }
    ],
    "users": [
        {
            "name": "u",
            "user": {
                "as": "me", "as-groups": ["g"], "as-user-extra": {"k": ["v"]},
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1", "command": "prog",
                    "args": ["a"], "env": [{"name": "A", "value": "b"}],
                    "interactiveMode": "Never", "provideClusterInfo": True,
                },
            },
        }
    ],
}  # fmt: skip


@cache
def examples(pattern: str) -> tuple[str, ...]:
    """The texts of those files."""
    return tuple(path.read_text() for path in sorted(EXAMPLES.glob(pattern)))


@cache
def example_documents(pattern: str, kind: str = "") -> tuple[Any, ...]:
    """All documents of those files, or those of one kind."""
    found = [each for text in examples(pattern) for each in yaml.safe_load_all(text) if each]
    return tuple(each for each in found if not kind or each.get("kind") == kind)
