"""Which pods nothing is done to for the sake of others, whatever their priority.

Static pods, which only their node can end, and pods that the cluster calls critical: never. A pod
that only says so itself, by our own annotation or by the kubelet's that anybody may write, is
exempt: a PodQOS that selects it overrules that, unless the settings believe its namespace. It can
spare that pod and touch no other one.
"""

from slackwater.contract.decoding import BOOL_WANTED, parse_bool
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.mirror_pod import STATIC_UID
from slackwater.model.problem import DocumentName, Problem, below, quoted

#: Our own: true spares the pod.
EXEMPT = "slackwater.io/exempt"
#: Where the kubelet got a pod from; the API server's pods say "api", or nothing.
CONFIG_SOURCE = "kubernetes.io/config.source"
STATIC_REASON, CRITICAL_REASON, EXEMPT_REASON = "static", "critical", "exempt"

_FROM_API_SERVER = "api"
#: SystemCriticalPriority in pkg/apis/scheduling/types.go of Kubernetes.
_SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
_CRITICAL_CLASSES = frozenset({"system-node-critical", "system-cluster-critical"})


def protection_of(pod: Pod) -> str:
    """Why it is spared, in one word; empty where it is not."""
    if _is_static(pod):
        return STATIC_REASON
    if pod.priority >= _SYSTEM_CRITICAL_PRIORITY or pod.priority_class in _CRITICAL_CLASSES:
        return CRITICAL_REASON
    return EXEMPT_REASON if _says_so_itself(pod) else ""


def exemption_problem(pod: Pod) -> Problem | None:
    """About a value of the annotation that is neither true nor false."""
    said = pod.annotations.get(EXEMPT)
    if said is None or parse_bool(said) is not None:
        return None
    name = DocumentName("", "Pod", pod.namespace, pod.name)
    where = below("metadata.annotations", EXEMPT)
    return Problem(where, quoted(said), BOOL_WANTED, document=name)


def _is_static(pod: Pod) -> bool:
    """A copy that is believed, or the kubelet's own object: only that has such a uid."""
    if pod.mirror is not None:
        return pod.cgroup_uid == pod.mirror.static_uid
    return _is_from_a_file(pod) and STATIC_UID.fullmatch(pod.uid) is not None


def _says_so_itself(pod: Pod) -> bool:
    said = pod.annotations.get(EXEMPT)
    # Whoever writes something else wanted something: sparing the pod harms nobody.
    exempt = said is not None and parse_bool(said) is not False
    return exempt or pod.mirror is not None or _is_from_a_file(pod)


def _is_from_a_file(pod: Pod) -> bool:
    return pod.annotations.get(CONFIG_SOURCE, _FROM_API_SERVER) != _FROM_API_SERVER
