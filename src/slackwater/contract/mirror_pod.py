"""Whose cgroup a pod is: its own uid's, or the static pod's that it is a mirror of.

The API copy of a static pod (the mirror pod) has a uid of its own, while its cgroups are named
after the static pod's uid, which the kubelet writes into an annotation. Whoever may create pods
may write that annotation and an owner reference: the API server only forbids changing it later.
So it is believed only of what this node's kubelet makes (pkg/kubelet/pod/mirror_client.go), and
never against the pod whose own uid it is.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from slackwater.contract.kubernetes_pod import MIRROR, MirrorClaim, Pod
from slackwater.model.problem import ConfigurationProblem, DocumentName, below, quoted

# An md5 sum, without the dashes of an API object's uid (pkg/kubelet/config/common.go).
STATIC_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_WHERE = below("metadata.annotations", MIRROR)


def assign_cgroups(
    pods: Iterable[Pod], node: str, node_uid: str
) -> tuple[tuple[Pod, ...], tuple[ConfigurationProblem, ...]]:
    """The pods with the uid of their cgroups, and a problem for each claim that is not believed;
    that pod counts as itself. An empty `node_uid` is not known, and not compared."""
    pods = tuple(pods)
    claims = [pod for pod in pods if pod.mirror]
    if not claims:
        return pods, ()
    refuted = {pod.uid: _refute(pod, pods, claims, node, node_uid) for pod in claims}
    assigned = tuple(
        msgspec.structs.replace(pod, cgroup_uid=pod.mirror.static_uid)
        if pod.mirror and not refuted[pod.uid]
        else pod
        for pod in pods
    )
    problems = tuple(
        ConfigurationProblem(
            f"{_title(pod)}: {_WHERE} is {quoted(pod.mirror.static_uid)}, but is not believed: "
            f"{refuted[pod.uid]}",
            about=_title(pod),
        )
        for pod in claims
        if pod.mirror and refuted[pod.uid]
    )
    return assigned, problems


def _refute(pod: Pod, pods: Sequence[Pod], claims: Sequence[Pod], node: str, node_uid: str) -> str:
    """Why the pod's claim is not believed; empty where it is."""
    claim = pod.mirror
    forged = _not_the_kubelets(pod, node, node_uid)
    if forged or claim is None:
        return forged
    for other in pods:
        if other.uid == claim.static_uid:
            return f"it is the uid of {_title(other)}"
    for other in claims:
        if (
            other.uid != pod.uid
            and other.mirror is not None
            and other.mirror.static_uid == claim.static_uid
            and not _not_the_kubelets(other, node, node_uid)
        ):
            return f"{_title(other)} has it too"
    return ""


def _not_the_kubelets(pod: Pod, node: str, node_uid: str) -> str:
    """What this node's kubelet would have written otherwise; empty where nothing is."""
    claim = pod.mirror or MirrorClaim("")
    if not STATIC_UID.fullmatch(claim.static_uid):
        return "a static pod's uid has 32 hexadecimal digits and no dashes"
    if not node or claim.node_name != node:
        return f"its controller is not the Node {node}"
    if node_uid and claim.node_uid != node_uid:
        return f"its controller is another Node called {node}"
    if not pod.name.endswith(f"-{node.lower()}"):
        return f"its name does not end in -{node.lower()}"
    return ""


def _title(pod: Pod) -> DocumentName:
    return DocumentName("", "Pod", pod.namespace, pod.name)
