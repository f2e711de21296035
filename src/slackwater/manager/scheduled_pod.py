"""Pods that stand on a node, as far as they fill it.

The manager keeps every pod of the cluster, so nothing but what it requests is decoded and kept.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.contract.koordinator.node_ratios import CPU, MEMORY, Amounts
from slackwater.contract.pod_resources import (
    Container,
    ContainerKind,
    Limits,
    PodResources,
    Requests,
    pod_requests,
)
from slackwater.model.units import UNLIMITED, Bytes, MilliCpu, parse_bytes, parse_milli_cpu

#: Which pods are asked for: those that a node has, and that have not ended.
SCHEDULED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_ALWAYS = "Always"
_Quantities = dict[str, str | int | float]


class ScheduledPod(msgspec.Struct, frozen=True, gc=False):
    """What it requests of its node: milliCPU and bytes, as the scheduler counts them."""

    node: str
    cpu: int
    memory: int


class _Resources(msgspec.Struct, frozen=True):
    requests: _Quantities = {}
    limits: _Quantities = {}


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    resources: _Resources = _Resources()
    restart_policy: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    resources: _Resources = _Resources()
    overhead: _Quantities = {}


class _ScheduledPod(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_DECODER = msgspec.json.Decoder(_ScheduledPod)


def read_scheduled_pod(raw: msgspec.Raw | bytes) -> ScheduledPod:
    """Raises QuantityError, which is a ValueError, for an amount that is none."""
    spec = _DECODER.decode(raw).spec
    containers = (
        *(_container(each, _kind(each)) for each in spec.init_containers),
        *(_container(each, ContainerKind.MAIN) for each in spec.containers),
    )
    own = spec.resources
    cpu, memory = own.limits.get(CPU), own.limits.get(MEMORY)
    asked = pod_requests(
        PodResources(
            containers,
            _requests(own.requests),
            Limits(
                UNLIMITED if cpu is None else parse_milli_cpu(str(cpu)),
                UNLIMITED if memory is None else parse_bytes(str(memory)),
            ),
            _requests(spec.overhead),
        )
    )
    return ScheduledPod(sys.intern(spec.node_name), asked.cpu, asked.memory)


def _kind(container: _Container) -> ContainerKind:
    stays = container.restart_policy == _ALWAYS
    return ContainerKind.SIDECAR if stays else ContainerKind.INIT


def _container(container: _Container, kind: ContainerKind) -> Container:
    """The API server has filled in requests that are absent where there is a limit."""
    return Container("", kind, requests=_requests(container.resources.requests))


def _requests(amounts: Mapping[str, str | float]) -> Requests:
    cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
    return Requests(
        MilliCpu(0) if cpu is None else parse_milli_cpu(str(cpu)),
        Bytes(0) if memory is None else parse_bytes(str(memory)),
    )


def sum_requests(pods: Iterable[ScheduledPod]) -> Mapping[str, Amounts]:
    """By node."""
    cpu: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for each in pods:
        cpu[each.node] += each.cpu
        memory[each.node] += each.memory
    return {node: {CPU: amount, MEMORY: memory[node]} for node, amount in cpu.items()}
