"""Which workload a pod belongs to, and what pods ask for.

Pods that are there say it by their owner. Of one that has ended during the period only its name is
left, in which the controllers of Kubernetes leave their traces.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.model.units import QuantityError, parse_milli_cpu

#: Of a ReplicaSet's name and a pod's: k8s.io/apimachinery/pkg/util/rand has no vowels.
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_OF_DEPLOYMENT = re.compile(rf"(.+)-{_SAFE}{{6,10}}-{_SAFE}{{5}}", re.ASCII)
_OF_SET = re.compile(rf"(.+)-(?:{_SAFE}{{5}}|[0-9]{{1,5}})", re.ASCII)
_HASH = re.compile(rf"(.+)-{_SAFE}{{6,10}}", re.ASCII)
#: A CronJob's Jobs have the scheduled time in minutes at their ends.
_SCHEDULED = re.compile(r"(.+)-[0-9]{8,10}", re.ASCII)
_REPLICA_SET, _JOB, _NODE = "ReplicaSet", "Job", "Node"
#: Pods that have ended use and reserve nothing.
_ENDED = ("Succeeded", "Failed")


class _Owner(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    owner_references: tuple[_Owner, ...] = ()


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str | int | float] = {}


class _Container(msgspec.Struct, frozen=True):
    resources: _Resources = _Resources()


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class PodWithOwner(msgspec.Struct, frozen=True, gc=False):
    """`workload` is the owner's kind and name, such as Deployment/web. `requested` in cores."""

    namespace: str
    name: str
    workload: str
    requested: float
    ended: bool


def read_owned_pod(raw: msgspec.Raw) -> PodWithOwner:
    """Raises msgspec.DecodeError."""
    pod = msgspec.json.decode(raw, type=_Pod)
    meta = pod.metadata
    asked = sum(_cores(each.resources.requests.get("cpu", 0)) for each in pod.spec.containers)
    ended = pod.status.phase in _ENDED
    return PodWithOwner(meta.namespace, meta.name, _workload(meta), asked, ended)


def _workload(meta: _Meta) -> str:
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is None or owner.kind == _NODE:
        return f"Pod/{meta.name}"
    if owner.kind == _REPLICA_SET and (found := _HASH.fullmatch(owner.name)):
        return f"Deployment/{found[1]}"
    if owner.kind == _JOB and (found := _SCHEDULED.fullmatch(owner.name)):
        return f"CronJob/{found[1]}"
    return f"{owner.kind}/{owner.name}"


def _cores(text: str | float) -> float:
    """An odd request is the API server's to refuse; here it is none."""
    try:
        return max(parse_milli_cpu(str(text)), 0) / 1000
    except QuantityError:
        return 0.0


def guess_workload(pod: str, known: Mapping[str, str]) -> str:
    """Of a pod that is gone; `known` has the workloads of its namespace, by their bare name."""
    for pattern in (_OF_DEPLOYMENT, _OF_SET):
        if (found := pattern.fullmatch(pod)) and found[1] in known:
            return known[found[1]]
    if found := _OF_DEPLOYMENT.fullmatch(pod):
        return f"Deployment/{found[1]}"
    if found := _OF_SET.fullmatch(pod):
        job = _SCHEDULED.fullmatch(found[1])
        return f"CronJob/{job[1]}" if job else f"(gone) {found[1]}"
    return f"Pod/{pod}"


def workloads_by_name(pods: Iterable[PodWithOwner]) -> dict[str, dict[str, str]]:
    """By namespace and bare name."""
    found: dict[str, dict[str, str]] = {}
    for pod in pods:
        bare = pod.workload.partition("/")[2]
        found.setdefault(pod.namespace, {})[bare] = pod.workload
    return found
