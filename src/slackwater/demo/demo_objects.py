"""What the demo's agent reads from its folder: the node, the pods, the rules and the settings.

The same objects as in a cluster, as text by file name. Which of them are there depends on how batch
work is controlled.
"""

from slackwater.demo.demo_plan import (
    BATCH_PODS,
    ELASTIC_PODS,
    HOG_CONTAINER,
    HOG_UID,
    SERVICE_CONTAINER,
    SERVICE_REQUEST,
    SERVICE_UID,
    THRESHOLD,
    BatchControl,
)
from slackwater.demo.service import HISTOGRAM

#: The quantile of the service's latency that the objective is about.
QUANTILE = "p90"
#: What the node may use below a static waterline, in percent.
WATERLINE_PERCENT = 80
_SHARE_SETTINGS = f"""\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec:
  bestEffortShare: {{enabled: true, threshold: {THRESHOLD}}}
"""
_ELASTIC_SETTINGS = f"{_SHARE_SETTINGS}  elasticResources: {{enabled: true}}\n"
_QUOTAS_ONLY = """\
apiVersion: slackwater.io/v1
kind: AgentSettings
spec:
  watermarkRelief: {demote: false}
"""
_NODE = """\
apiVersion: v1
kind: Node
metadata: {{name: demo}}
status: {{allocatable: {{cpu: "{cpus}"}}}}
"""
_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: demo
  uid: {uid}
  labels: {{app: {app}}}
  annotations: {annotations}
spec:
  nodeName: demo
  priority: {priority}
  containers:
  - name: main
    resources: {resources}
status:
  phase: Running
  qosClass: {qos}
  containerStatuses:
  - {{name: main, containerID: "containerd://{container}"}}
"""
_ACTION = """\
apiVersion: ensurance.crane.io/v1alpha1
kind: AvoidanceAction
metadata: {{name: throttle-batch}}
spec:
  coolDownSeconds: {cool_down}
  throttle:
    cpuThrottle: {{minCPURatio: 10, stepCPURatio: 10}}
"""
#: The pods that the action may touch.
WHO = """\
apiVersion: ensurance.crane.io/v1alpha1
kind: PodQOS
metadata: {name: batch}
spec:
  labelSelector: {matchLabels: {app: batch}}
  allowedActions: [throttle-batch]
"""
_WATERLINE = """\
apiVersion: ensurance.crane.io/v1alpha1
kind: NodeQOS
metadata: {{name: waterline}}
spec:
  nodeQualityProbe:
    nodeLocalGet: {{localCacheTTLSeconds: 60}}
  rules:
  - name: cpu-usage
    avoidanceThreshold: 2
    restoreThreshold: 2
    actionName: throttle-batch
    metricRule: {{name: cpu_total_usage, value: "{value}"}}
"""
_OBJECTIVE = """\
apiVersion: ensurance.crane.io/v1alpha1
kind: NodeQOS
metadata: {{name: latency}}
spec:
  nodeQualityProbe:
    timeoutSeconds: 1
    httpGet: {{host: 127.0.0.1, port: {port}, path: /metrics}}
  rules:
  - name: service-{quantile}
    avoidanceThreshold: 1
    restoreThreshold: 5
    actionName: throttle-batch
    metricRule: {{name: "{histogram}:{quantile}", value: {value}u}}
"""


def describe_objective(port: int, seconds: float, cool_down: int) -> dict[str, str]:
    """The rule about the service's latency; `seconds` are the objective."""
    rule = _OBJECTIVE.format(
        port=port, quantile=QUANTILE, histogram=HISTOGRAM, value=round(seconds * 1e6)
    )
    return {"latency.yaml": rule, "action.yaml": _ACTION.format(cool_down=cool_down)}


def describe_waterline(cpus: int, cool_down: int) -> dict[str, str]:
    """Crane's throttle: a rule about the node's CPU usage, and quotas without demotion."""
    return {
        "waterline.yaml": _WATERLINE.format(value=10 * cpus * WATERLINE_PERCENT),
        "action.yaml": _ACTION.format(cool_down=cool_down),
        "settings.yaml": _QUOTAS_ONLY,
    }


def node_folder(control: BatchControl, cpus: int, rule: dict[str, str]) -> dict[str, str]:
    """What the agent's folder holds: text by file name. `rule` is what describe_objective or
    describe_waterline says."""
    service = _POD.format(
        name="service", app="service", uid=SERVICE_UID, qos="Burstable", priority=1000,
        annotations='{volcano.sh/qos-level: "LS"}', container=SERVICE_CONTAINER,
        resources=f"{{requests: {{cpu: {SERVICE_REQUEST}m}}}}",
    )  # fmt: skip
    found = {"node.yaml": _NODE.format(cpus=cpus), "service.yaml": service}
    if control is BatchControl.BEST_EFFORT_SHARE:
        hog = _POD.format(
            name="hog", app="batch", uid=HOG_UID, qos="BestEffort", priority=0,
            annotations='{volcano.sh/qos-level: "BE"}', container=HOG_CONTAINER, resources="{}",
        )  # fmt: skip
        return {**found, "settings.yaml": _SHARE_SETTINGS, "hog.yaml": hog}
    if control is BatchControl.ELASTIC:
        found["settings.yaml"] = _ELASTIC_SETTINGS
        for pod in ELASTIC_PODS:
            found[f"{pod.name}.yaml"] = _POD.format(
                name=pod.name, app="batch", uid=pod.uid, qos="BestEffort", priority=0,
                annotations="{}", container=pod.container,
                resources=f"{{limits: {{gocrane.io/cpu: {pod.request}m}}}}",
            )  # fmt: skip
        return found
    for pod in BATCH_PODS:
        found[f"{pod.name}.yaml"] = _POD.format(
            name=pod.name, app="batch", uid=pod.uid, qos="Burstable", priority=-10,
            annotations="{}", container=pod.container,
            resources=f"{{requests: {{cpu: {pod.request}m}}}}",
        )  # fmt: skip
    return {**found, "who.yaml": WHO, **rule}
