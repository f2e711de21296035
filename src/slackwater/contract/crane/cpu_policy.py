"""Which CPUs a Crane user asks for by annotation: those of the pod's containers that may have some.

Two generations of Crane have an annotation each. The older one's words are the model's own. The
newer one calls share `immovable`; its `numa` names no CPUs, but a NUMA node that Crane's scheduler
chose and wrote into a further annotation, without which Crane does nothing either: it is refused.
"""

from collections.abc import Mapping

from slackwater.model.cpus import CpuPolicy
from slackwater.model.gap import Gap
from slackwater.model.problem import Problem, quoted

CPU_MANAGER = "qos.gocrane.io/cpu-manager"
CPU_POLICY = "topology.crane.io/cpu-policy"
#: The older one counts where a pod has both.
_WORDS: dict[str, dict[str, CpuPolicy]] = {
    CPU_MANAGER: {policy.value: policy for policy in CpuPolicy},
    CPU_POLICY: {
        "none": CpuPolicy.NONE,
        "exclusive": CpuPolicy.EXCLUSIVE,
        "immovable": CpuPolicy.SHARE,
    },
}


def cpu_policy(annotations: Mapping[str, str]) -> CpuPolicy | Gap | None:
    """None where the pod has no such annotation."""
    key = said_by(annotations)
    if not key:
        return None
    words = _WORDS[key]
    return words.get(annotations[key]) or _refused(key, annotations[key], words)


def said_by(annotations: Mapping[str, str]) -> str:
    """The annotation that counts; empty where the pod has none."""
    return next((key for key in _WORDS if key in annotations), "")


def word_for(key: str, policy: CpuPolicy) -> str:
    """The annotation's own word for a policy."""
    words = _WORDS.get(key, {})
    return next((word for word, meant in words.items() if meant is policy), policy.value)


def _refused(key: str, said: str, words: Mapping[str, CpuPolicy]) -> Gap:
    wanted = f"one of {', '.join(words)}"
    return Gap(Problem(f"the annotation {key}", quoted(said), wanted).sentence())
