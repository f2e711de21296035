"""What a pod asks for as a whole, and its QoS class: Kubernetes' own rules.

The arithmetic of containers, init containers, sidecars, overhead and the pod's own resources is
that of k8s.io/component-helpers/resource (PodRequests and PodLimits) and ComputePodQOS. Ephemeral
containers have no resources and count nowhere.

Amounts of extended resources (names with a domain, such as kubernetes.io/batch-cpu) are read as
Quantity.Value(), but never rounded: that would make 1 out of "200m" of batch-cpu, a thousandth of a
CPU (volcano issue 4625). gocrane.io/cpu is counted in cores there and in milliCPU here, so that all
amounts of CPU are. A bad amount is a Gap, and the rest of the pod stays readable.
"""

import enum
from collections.abc import Callable, Mapping

import msgspec

from slackwater.contract.document import LARGEST_NUMBER, Field, members
from slackwater.model.cgroup import Tier
from slackwater.model.elastic import ELASTIC_CPU
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import (
    UNLIMITED,
    Bytes,
    MilliCpu,
    QuantityError,
    Ratio,
    Unlimited,
    parse_quantity,
)

#: By the resource's name, domain included.
Amounts = Mapping[str, int | Gap]
#: One for all containers: most have no extended resource. A plain mapping, as a recording takes
#: no other.
NO_AMOUNTS: Amounts = {}

_WANTED_BYTES = "a whole number of bytes, zero or more, such as 2Gi"
# What resources count, by what follows the domain's slash.
_WANTED = {
    "batch-cpu": "a whole number of milliCPU, zero or more, such as {}",
    "batch-memory": _WANTED_BYTES,
    "memory": _WANTED_BYTES,
}
_WANTED_CORES = "CPUs to a thousandth, zero or more, such as 2 or 500m"
_WANTED_ELSE = "a whole number, zero or more, such as 2"
_EXAMPLE = 500
_MILLI_PER_CORE = 1000


def read_amounts(field: Field | None) -> Amounts:
    """The extended resources in a mapping of requests or limits; cpu and memory are none."""
    return {name: _amount(name, each) for name, each in _stated(field)} or NO_AMOUNTS


def read_requests(field: Field | None, limits: Amounts) -> Amounts:
    """The requests, where they are absent the limits: SetDefaults_Pod in Kubernetes."""
    asked = {name: _within(name, each, limits.get(name)) for name, each in _stated(field)}
    completed = {**limits, **asked}
    return limits if completed == limits else completed


def _stated(field: Field | None) -> tuple[tuple[str, Field], ...]:
    """What stands under a name with a domain; null counts as absent."""
    found = () if field is None else members(field)
    return tuple((name, each) for name, each in found if "/" in name and each.value is not None)


def _within(name: str, field: Field, limit: int | Gap | None) -> int | Gap:
    amount = _amount(name, field)
    if isinstance(amount, Gap) or limit is None or isinstance(limit, Gap) or amount <= limit:
        return amount
    shown = f"{limit}m" if name == ELASTIC_CPU else str(limit)
    return _gap(field, f"at most the limit, which is {shown}")


def _amount(name: str, field: Field) -> int | Gap:
    """Kubernetes takes a bare number for a quantity as well: batch-cpu: 500."""
    value = field.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _gap(field, amount_wanted(name))
    try:
        exact = parse_quantity(value if isinstance(value, str) else quoted(value))
    except QuantityError:
        return _gap(field, amount_wanted(name))
    parts = _MILLI_PER_CORE if name == ELASTIC_CPU else 1
    amount, rest = divmod(exact.numerator * parts, exact.denominator)
    if rest or not 0 <= amount <= LARGEST_NUMBER:
        return _gap(field, amount_wanted(name, _meant(exact)))
    return amount


def _meant(exact: Ratio) -> int:
    """What to write for a part of a CPU: 200 for "200m", 1500 for "1.5"."""
    milli = exact.of(1000)
    return milli if 0 < milli <= LARGEST_NUMBER else _EXAMPLE


def amount_wanted(name: str, milli: int = _EXAMPLE) -> str:
    """What an amount of this resource must be, with an example where it counts milliCPU."""
    if name == ELASTIC_CPU:
        return _WANTED_CORES
    return _WANTED.get(name.rpartition("/")[2], _WANTED_ELSE).format(milli)


def _gap(field: Field, wanted: str) -> Gap:
    return Gap(field.problem(wanted).sentence())


class ContainerKind(enum.Enum):
    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy Always: it stays
    MAIN = "main"
    EPHEMERAL = "ephemeral"


class ResourceName(enum.Enum):
    CPU = "cpu"
    MEMORY = "memory"


class Requests(msgspec.Struct, frozen=True):
    """What is asked for; zero asks for nothing."""

    cpu: MilliCpu = MilliCpu(0)
    memory: Bytes = Bytes(0)

    def of(self, resource: ResourceName) -> int:
        return self.cpu if resource is ResourceName.CPU else self.memory


class Limits(msgspec.Struct, frozen=True):
    """What may not be exceeded. Kubernetes reads a limit of zero as none."""

    cpu: MilliCpu | Unlimited = UNLIMITED
    memory: Bytes | Unlimited = UNLIMITED

    def of(self, resource: ResourceName) -> int | Unlimited:
        return self.cpu if resource is ResourceName.CPU else self.memory


class Container(msgspec.Struct, frozen=True):
    """One container. `id` is the runtime's, "containerd://…", or empty before it has one.

    Extended resources count neither for the pod's requests nor for its QoS class.
    """

    name: str
    kind: ContainerKind = ContainerKind.MAIN
    id: str = ""
    requests: Requests = Requests()
    limits: Limits = Limits()
    extended_requests: Amounts = NO_AMOUNTS
    extended_limits: Amounts = NO_AMOUNTS


class PodResources(msgspec.Struct, frozen=True):
    """A pod's containers in the order of its spec, init containers first.

    `own_requests` and `own_limits` are spec.resources, which Kubernetes has from 1.32 on.
    """

    containers: tuple[Container, ...] = ()
    own_requests: Requests = Requests()
    own_limits: Limits = Limits()
    overhead: Requests = Requests()


def pod_requests(pod: PodResources) -> Requests:
    """What the scheduler and the kubelet count for the pod: milliCPU and bytes."""
    cpu, memory = _asked(pod, ResourceName.CPU), _asked(pod, ResourceName.MEMORY)
    return Requests(MilliCpu(cpu + pod.overhead.cpu), Bytes(memory + pod.overhead.memory))


class Extended(msgspec.Struct, frozen=True):
    """A pod's extended resources as a whole; a limit is there only if every container has one."""

    requests: Amounts = NO_AMOUNTS
    limits: Amounts = NO_AMOUNTS


def pod_extended(pod: PodResources) -> Extended:
    """By the same rules as cpu and memory: a limit of zero is none. An amount that one container
    has wrong is unknown."""
    counted = _counted(pod)
    asked = {name: None for each in counted for name in each.extended_requests}
    allowed = [
        name
        for name in {name: None for each in counted for name in each.extended_limits}
        if all(each.extended_limits.get(name) for each in counted)
    ]
    if not asked and not allowed:
        return Extended()
    return Extended(
        {name: _extended(pod, name, lambda each: each.extended_requests) for name in asked},
        {name: _extended(pod, name, lambda each: each.extended_limits) for name in allowed},
    )


def _extended(pod: PodResources, name: str, of: Callable[[Container], Amounts]) -> int | Gap:
    for each in _counted(pod):
        amount = of(each).get(name)
        if isinstance(amount, Gap):
            return amount

    def known(each: Container) -> int:
        amount = of(each).get(name, 0)
        return 0 if isinstance(amount, Gap) else amount

    return _effective(pod, known)


def qos_tier(pod: PodResources) -> Tier:
    """Kubernetes' QoS class of a pod. The pod's own resources, where stated, speak for all."""
    asked = [each.requests for each in _counted(pod)]
    limits = [each.limits for each in _counted(pod)]
    if pod.own_requests != Requests() or pod.own_limits != Limits():
        own = (_asked(pod, ResourceName.CPU), _asked(pod, ResourceName.MEMORY))
        asked, limits = [Requests(MilliCpu(own[0]), Bytes(own[1]))], [pod.own_limits]
    if all(each == Requests() for each in asked) and all(each == Limits() for each in limits):
        return Tier.BESTEFFORT
    kept = all(_equal_sums(asked, limits, resource) for resource in ResourceName)
    return Tier.GUARANTEED if kept else Tier.BURSTABLE


def _equal_sums(asked: list[Requests], limits: list[Limits], resource: ResourceName) -> bool:
    """Whether everything that is asked for is also the limit; false if one has no limit."""
    allowed = [each.of(resource) for each in limits]
    total = sum(each for each in allowed if not isinstance(each, Unlimited))
    return UNLIMITED not in allowed and total == sum(each.of(resource) for each in asked)


def _counted(pod: PodResources) -> tuple[Container, ...]:
    return tuple(each for each in pod.containers if each.kind is not ContainerKind.EPHEMERAL)


def _asked(pod: PodResources, resource: ResourceName) -> int:
    """The request without overhead: the pod's own, else its containers', else its own limit.

    That is the order in which the API server fills in spec.resources.requests.
    """
    effective = _effective(pod, lambda each: each.requests.of(resource))
    limit = pod.own_limits.of(resource)
    return pod.own_requests.of(resource) or effective or _number(limit)


def _number(limit: int | Unlimited) -> int:
    return 0 if isinstance(limit, Unlimited) else limit


def _effective(pod: PodResources, amount: Callable[[Container], int]) -> int:
    """The most that is wanted at one time: by all that stay, or by one that starts among them.

    Init containers run one after another, before the main ones; a sidecar stays from its turn on.
    """
    staying = sum(amount(each) for each in pod.containers if each.kind is ContainerKind.MAIN)
    sidecars = starting = 0
    for each in pod.containers:
        if each.kind is ContainerKind.SIDECAR:
            staying += amount(each)
            sidecars += amount(each)
            starting = max(starting, sidecars)
        elif each.kind is ContainerKind.INIT:
            starting = max(starting, sidecars + amount(each))
    return max(staying, starting)
