"""What comes and goes on a soaked node: pods, one a second, and the settings and policies of an
hour. Values only; everything repeats after CYCLE seconds, so that two moments a whole number of
cycles apart compare."""

import json
from typing import Any

import msgspec

from slackwater.contract.resources import (
    AVOIDANCE_ACTIONS,
    CONFIG_MAPS,
    NODE_QOS,
    POD_QOS,
    Resource,
)

Document = dict[str, Any]
NODE, NAMESPACE, TENANT = "here", "slackwater-system", "tenant"
#: Virtual seconds.
CYCLE = 600
#: How long a pod lives, by its number.
_LIVES = (8, 31, 13, 24)
_BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "256Mi"}


class SoakPod(msgspec.Struct, frozen=True):
    """The pod of this number; pods of one kind come each sixth second."""

    number: int

    @property
    def uid(self) -> str:
        return f"11111111-2222-4333-8444-{self.number:012d}"

    @property
    def container(self) -> str:
        return f"{self.number + 1:064x}"

    @property
    def name(self) -> str:
        return f"pod-{self.number}"

    @property
    def lives(self) -> int:
        return _LIVES[self.number % len(_LIVES)]

    def group(self) -> str:
        tier = ("besteffort/", "besteffort/", "burstable/", "", "besteffort/", "burstable/")
        return f"kubepods/{tier[self.number % len(tier)]}pod{self.uid}"

    def document(self, *, running: bool = True, going: bool = False) -> Document:
        annotations, resources, priority = self._kind()
        meta: Document = {"name": self.name, "namespace": TENANT, "uid": self.uid,
                          "labels": {"app": f"app-{self.number % 6}"},
                          "annotations": annotations}  # fmt: skip
        if going:
            meta["deletionTimestamp"] = "2026-01-05T08:00:00Z"
            meta["deletionGracePeriodSeconds"] = 1
        states = [{"name": "main", "containerID": f"containerd://{self.container}"}]
        return {
            "metadata": meta,
            "spec": {
                "nodeName": NODE,
                "priority": priority,
                "containers": [{"name": "main", "image": "x", "resources": resources}],
            },
            "status": {
                "phase": "Running" if running else "Pending",
                "containerStatuses": states if running else [],
            },
        }

    def _kind(self) -> tuple[dict[str, str], Document, int]:
        whole = {"cpu": "1", "memory": "64Mi"}
        return (
            ({"volcano.sh/qos-level": "BE"}, {}, -100),
            ({"volcano.sh/enable-quota-burst": "true"}, {"limits": _BATCH}, -50),
            ({"volcano.sh/enable-quota-burst": "true"},
             {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}}, 0),
            ({"qos.gocrane.io/cpu-manager": "exclusive"},
             {"requests": whole, "limits": whole}, 1000),
            ({"volcano.sh/colocation-config":
              '{"memoryQos": {"highRatio": 80, "lowRatio": 50}}'}, {}, -20),
            ({}, {"requests": {"cpu": "50m", "memory": "64Mi"}}, 10),
        )[self.number % 6]  # fmt: skip


def settings(text: str) -> tuple[Resource, Document]:
    return CONFIG_MAPS, {
        "metadata": {"name": "slackwater-agent", "namespace": NAMESPACE, "uid": "of-settings"},
        "data": {"settings.yaml": text},
    }


def settings_text(period: int, **more: Document) -> str:
    """All policies, with these sections changed."""
    names = ("bestEffortShare", "qosLevel", "quotaBurst", "memoryQos", "elasticResources",
             "corePinning", "oversold")  # fmt: skip
    spec: Document = {name: {"enabled": True} for name in names}
    spec["bestEffortShare"] |= {"threshold": 80}
    spec |= {"agent": {"reading": "everything", "period": f"{period}s"}, **more}
    kind = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings", "spec": spec}
    return json.dumps(kind)


def policies() -> list[tuple[Resource, Document]]:
    """Rules that always hold: one taints, one throttles, one evicts."""
    probe = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
    rules = [
        {"name": action, "actionName": action, "strategy": "None",
         "metricRule": {"name": "cpu_total_usage", "value": 1}}
        for action in ("taint", "throttle", "evict")
    ]  # fmt: skip
    step = {"stepCPURatio": 10, "minCPURatio": 10}
    return [
        _named(AVOIDANCE_ACTIONS, "taint", {"coolDownSeconds": 1}),
        _named(AVOIDANCE_ACTIONS, "throttle",
               {"coolDownSeconds": 1, "throttle": {"cpuThrottle": step}}),
        _named(AVOIDANCE_ACTIONS, "evict",
               {"coolDownSeconds": 1, "eviction": {"terminationGracePeriodSeconds": 1}}),
        _named(POD_QOS, "batch", {"labelSelector": {"matchLabels": {"app": "app-0"}},
                                  "allowedActions": ["throttle", "evict"]}),
        _named(NODE_QOS, "rules", {"nodeQualityProbe": probe, "rules": rules}),
    ]  # fmt: skip


def _named(resource: Resource, name: str, spec: Document) -> tuple[Resource, Document]:
    return resource, {"metadata": {"name": name, "uid": f"of-{name}"}, "spec": spec}
