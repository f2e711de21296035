"""Annotations by which people keep a pod or a workload from being rotated.

Owns their names and the sentence for each. Pods without a controller that replaces them are not
asked here: the owner chain does not lead to them.
"""

from collections.abc import Mapping

from slackwater.contract.kubernetes import BOOL_WANTED, parse_bool
from slackwater.contract.owned_pod import OwnedPod
from slackwater.model.problem import quoted

ROTATE = "slackwater.io/rotate"
#: The descheduler's: the first by being there, the second by its value
#: (sigs.k8s.io/descheduler, pkg/framework/plugins/defaultevictor).
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
EVICT = "descheduler.alpha.kubernetes.io/evict"


def workload_opted_out(annotations: Mapping[str, str]) -> str:
    """Which annotation forbids it, as a clause; empty where none does. A value that is no answer
    forbids: whoever wrote it wanted something, and waiting does no harm."""
    if ROTATE not in annotations:
        return ""
    value = annotations[ROTATE]
    match parse_bool(value):
        case True:
            return ""
        case False:
            return f"its annotation {ROTATE} is {quoted(value)}"
        case _:
            return f"its annotation {ROTATE} is {quoted(value)}, but must be {BOOL_WANTED}"


def pod_held_back(pod: OwnedPod) -> str:
    """Why this pod must stay, as a clause; empty where it may go."""
    annotations = pod.metadata.annotations
    if pod.is_static():
        return "it is a static pod, which its node alone decides on"
    if said := workload_opted_out(annotations):
        return said
    if PREFER_NO_EVICTION in annotations:
        return f"it has the annotation {PREFER_NO_EVICTION}"
    if parse_bool(annotations.get(EVICT, "")) is False:
        return f"its annotation {EVICT} is {quoted(annotations[EVICT])}"
    return ""
