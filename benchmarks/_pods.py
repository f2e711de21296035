"""Pods as `kubectl get pod -o yaml` shows them, for groups that exist; and their node's folder.

Owns the text of the objects and the names of the groups. Makes no group.
"""

import os
from collections.abc import Sequence

import msgspec

CONTAINERS = 2
#: The tiers that pods sit in, by the last digit of their number: two in ten are best-effort, one
#: is guaranteed.
_TIERS = ("besteffort", "burstable", "burstable", "burstable", "") + ("burstable",) * 4
_QOS = {"besteffort": "BestEffort", "burstable": "Burstable", "": "Guaranteed"}
_RESOURCES = {
    "besteffort": "{}",
    "burstable": "{requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 128Mi}}",
    "": "{requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 50m, memory: 64Mi}}",
}

_POD = """\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    checksum/config: 5f4dcc3b5aa765d61d8327deb882cf99e9d8c2a14d9f2c6b0a1f7a6d6f0f2b11
    prometheus.io/port: "9090"
    prometheus.io/scrape: "true"
  creationTimestamp: "2026-01-05T08:00:00Z"
  generateName: {name}-
  labels:
    app.kubernetes.io/component: server
    app.kubernetes.io/instance: {name}
    app.kubernetes.io/managed-by: Helm
    app.kubernetes.io/name: {name}
    pod-template-hash: 6d4cf56db6
  name: {name}
  namespace: team-{team}
  ownerReferences:
  - apiVersion: apps/v1
    blockOwnerDeletion: true
    controller: true
    kind: ReplicaSet
    name: {name}
    uid: 0a1b2c3d-0000-4000-8000-{number:012d}
  resourceVersion: "{number}"
  uid: {uid}
spec:
  containers:
{containers}
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  nodeName: here
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {{fsGroup: 1000, runAsNonRoot: true, runAsUser: 1000}}
  serviceAccountName: default
  terminationGracePeriodSeconds: 30
  tolerations:
  - effect: NoExecute
    key: node.kubernetes.io/not-ready
    operator: Exists
    tolerationSeconds: 300
  - effect: NoExecute
    key: node.kubernetes.io/unreachable
    operator: Exists
    tolerationSeconds: 300
  volumes:
  - name: config
    configMap: {{defaultMode: 420, name: {name}}}
  - name: kube-api-access
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {{expirationSeconds: 3607, path: token}}
      - configMap:
          items: [{{key: ca.crt, path: ca.crt}}]
          name: kube-root-ca.crt
status:
  conditions:
  - {{lastTransitionTime: "2026-01-05T08:00:05Z", status: "True", type: Ready}}
  - {{lastTransitionTime: "2026-01-05T08:00:05Z", status: "True", type: ContainersReady}}
  - {{lastTransitionTime: "2026-01-05T08:00:00Z", status: "True", type: PodScheduled}}
  containerStatuses:
{statuses}
  hostIP: 10.0.0.1
  phase: Running
  podIP: 10.1.0.1
  qosClass: {qos}
  startTime: "2026-01-05T08:00:00Z"
"""
_CONTAINER = """\
  - args: ["--config=/etc/{name}/config.yaml", "--log-level=info"]
    env:
    - name: POD_NAME
      valueFrom: {{fieldRef: {{apiVersion: v1, fieldPath: metadata.name}}}}
    - {{name: TZ, value: UTC}}
    image: example.org/{name}:1.2.3
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 3
      httpGet: {{path: /healthz, port: http, scheme: HTTP}}
      periodSeconds: 10
    name: container-{number}
    ports:
    - {{containerPort: 8080, name: http, protocol: TCP}}
    resources: {resources}
    terminationMessagePath: /dev/termination-log
    volumeMounts:
    - {{mountPath: /etc/{name}, name: config}}
    - {{mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access}}"""
_STATUS = """\
  - containerID: containerd://{id}
    image: example.org/{name}:1.2.3
    imageID: example.org/{name}@sha256:{id}
    name: container-{number}
    ready: true
    restartCount: 0
    started: true
    state: {{running: {{startedAt: "2026-01-05T08:00:04Z"}}}}"""

_BATCH = '{limits: {kubernetes.io/batch-cpu: "1000", kubernetes.io/batch-memory: "1Gi"}}'
_BATCH_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: batch-{number}
  namespace: default
  uid: {uid}
  annotations:
    volcano.sh/qos-level: BE
    volcano.sh/enable-quota-burst: "true"
    qos.gocrane.io/cpu-manager: none
    volcano.sh/colocation-config: '{{"memoryQos": {{"highRatio": 80, "lowRatio": 50}}}}'
spec: {{containers: [{boxes}]}}
status: {{phase: Running, qosClass: BestEffort, containerStatuses: [{states}]}}
"""
#: As the sections of the settings are called.
POLICIES = (
    "bestEffortShare",
    "elasticResources",
    "qosLevel",
    "quotaBurst",
    "memoryQos",
    "corePinning",
    "oversold",
)

#: One rule of each kind of action, whose values no machine reaches.
_RULES = """\
apiVersion: ensurance.crane.io/v1alpha1
kind: NodeQOS
metadata: {name: rules}
spec:
  nodeQualityProbe: {nodeLocalGet: {localCacheTTLSeconds: 60}}
  rules:
  - {name: taint, actionName: taint, metricRule: {name: cpu_total_usage, value: 1000000000}}
  - {name: throttle, actionName: throttle, metricRule: {name: cpu_total_usage, value: 1000000000}}
  - {name: evict, actionName: evict, metricRule: {name: memory_total_utilization, value: 99}}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: AvoidanceAction
metadata: {name: taint}
spec: {}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: AvoidanceAction
metadata: {name: throttle}
spec: {throttle: {cpuThrottle: {stepCPURatio: 10, minCPURatio: 10}}}
---
apiVersion: ensurance.crane.io/v1alpha1
kind: AvoidanceAction
metadata: {name: evict}
spec: {eviction: {}}
"""

_NODE = """\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {{{spec}}}
---
apiVersion: v1
kind: Node
metadata: {{name: here}}
status: {{allocatable: {{cpu: "{cpus}"}}}}
"""


class BenchPod(msgspec.Struct, frozen=True):
    """The pod of this number: where its groups are, and its object."""

    number: int

    @property
    def tier(self) -> str:
        return _TIERS[self.number % len(_TIERS)]

    @property
    def uid(self) -> str:
        return f"11111111-2222-4333-8444-{self.number:012d}"

    @property
    def name(self) -> str:
        return f"service-{self.number:04d}"

    def container_ids(self) -> list[str]:
        return [f"{CONTAINERS * self.number + one:064x}" for one in range(CONTAINERS)]

    def paths(self, kubepods: str) -> list[str]:
        """Its containers' groups; a guaranteed pod sits beside the tiers."""
        pod = "/".join(filter(None, (kubepods, self.tier, f"pod{self.uid}")))
        return [f"{pod}/{each}" for each in self.container_ids()]

    def text(self) -> str:
        name = self.name
        ids = list(enumerate(self.container_ids()))
        resources = _RESOURCES[self.tier]
        return _POD.format(
            name=name,
            team=self.number % 20,
            number=self.number,
            uid=self.uid,
            qos=_QOS[self.tier],
            containers="\n".join(
                _CONTAINER.format(name=name, number=one, resources=resources) for one, _ in ids
            ),
            statuses="\n".join(_STATUS.format(name=name, number=one, id=id_) for one, id_ in ids),
        )


class BatchPod(BenchPod, frozen=True):
    """A best-effort pod that asks something of every policy: batch resources, a class, a burst, and
    memory ratios."""

    @property
    def tier(self) -> str:
        return "besteffort"

    def text(self) -> str:
        ids = list(enumerate(self.container_ids()))
        boxes = ", ".join(f"{{name: c{number}, resources: {_BATCH}}}" for number, _ in ids)
        states = ", ".join(f'{{name: c{n}, containerID: "containerd://{id_}"}}' for n, id_ in ids)
        return _BATCH_POD.format(number=self.number, uid=self.uid, boxes=boxes, states=states)


def write_folder(
    folder: str,
    pods: Sequence[BenchPod],
    cpus: int,
    policies: Sequence[str] = ("bestEffortShare",),
    **share: int,
) -> None:
    """A file for each pod, as a user would keep them, the node and the settings."""
    said = {"bestEffortShare": "".join(f", {key}: {value}" for key, value in share.items())}
    spec = ", ".join(f"{name}: {{enabled: true{said.get(name, '')}}}" for name in policies)
    _write(f"{folder}/node.yaml", _NODE.format(cpus=cpus, spec=spec))
    for pod in pods:
        _write(f"{folder}/pod-{pod.number:04d}.yaml", pod.text())


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def write_rules(folder: str) -> None:
    """Rules about the node, beside what write_folder wrote."""
    with open(f"{folder}/rules.yaml", "w") as file:
        file.write(_RULES)
