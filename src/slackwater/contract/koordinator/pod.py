"""What Koordinator says about one pod: its QoS class, and CPUs that its scheduler gave it."""

from collections.abc import Mapping

from slackwater.contract.document import Field, member, parse_json
from slackwater.model.problem import InvalidError

QOS_CLASS = "koordinator.sh/qosClass"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
#: Classes whose pods have CPUs of their own, or are the system's.
_BOUND_CLASSES = frozenset({"LSE", "LSR", "SYSTEM"})


def bound_cpus(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Why the pod does not share the node's CPUs by time; empty where it does. An annotation that
    cannot be read says nothing: the scheduler writes it, not the user."""
    qos_class = labels.get(QOS_CLASS, "")
    if qos_class in _BOUND_CLASSES:
        return f"{QOS_CLASS} is {qos_class}"
    stated = annotations.get(RESOURCE_STATUS, "")
    if not stated:
        return ""
    try:
        cpus = member(Field("", RESOURCE_STATUS, parse_json(stated, RESOURCE_STATUS)), "cpuset")
    except InvalidError:
        return ""
    value = None if cpus is None else cpus.value
    return (
        f"{RESOURCE_STATUS} has the CPUs {value[:40]}" if isinstance(value, str) and value else ""
    )
