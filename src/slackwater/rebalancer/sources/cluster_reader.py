"""Reads workloads from the API server: the autoscaler, the pods, and whether a rollout or scaling
is in progress.

Each kind of object is listed once in a namespace, so that all workloads of a round are seen at the
same time; every round needs a new reader.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import NoReturn, TypeVar

import msgspec

from slackwater.contract.decoding import BOOL_WANTED, decode_struct, parse_bool
from slackwater.contract.label_selector import LabelSelector, parse_selector
from slackwater.contract.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from slackwater.contract.workload_objects import (
    Amount,
    Autoscaler,
    DisruptionBudget,
    OwnedPod,
    PodContainer,
    Resources,
    ScaledWorkload,
    ScaleTarget,
    began,
    cores_of,
    pod_cores_of,
    rollout_of,
)
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, quoted
from slackwater.rebalancer import last_rotation
from slackwater.rebalancer.observed import (
    Budget,
    ContainerAmounts,
    Cores,
    LastRotation,
    ObservedWorkload,
    PodUsage,
    Scaling,
    Unavailable,
    WorkloadName,
)
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.autoscalers import AutoscalerChoice, choose
from slackwater.record.timestamps import parse_timestamp
from slackwater.settings.rebalancer import WorkloadSettings

ROTATE = "slackwater.io/rotate"
#: Annotations of the descheduler: the first counts if present, the second by its value
#: (sigs.k8s.io/descheduler, pkg/framework/plugins/defaultevictor).
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
EVICT = "descheduler.alpha.kubernetes.io/evict"

Owned = TypeVar("Owned", OwnedPod, ScaledWorkload)
T = TypeVar("T")
Decoded = TypeVar("Decoded", bound=msgspec.Struct)

#: The kinds that replace pods, and so can be rotated.
_ROTATED = {each.kind: each for each in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}
_ROTATED_GROUP = "apps"
_DEFAULT = "default"
_ASSUMED = f"; {_DEFAULT} is the namespace where none is named (-n)"


class ClusterReader:
    """The API server as of one round."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespaces: dict[str, _Namespace] = {}

    def read(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        name = settings.namespace
        if name not in self._namespaces:
            self._namespaces[name] = _Namespace(self._client, name)
        try:
            return _read_workload(self._namespaces[name], settings)
        except _UnavailableError as error:
            return error.problem
        except InvalidError as error:
            return Unavailable(Reason.KUBERNETES_ERROR, str(error))


class _UnavailableError(Exception):
    """Carries an Unavailable up to `ClusterReader.read`."""

    def __init__(self, problem: Unavailable) -> None:
        super().__init__(problem.because)
        self.problem = problem


class _Namespace:
    """Lists of one namespace, each read when it is first needed. A failure is cached as well."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    @cached_property
    def autoscalers(self) -> list[Autoscaler] | Unavailable:
        return self._listed(HORIZONTAL_POD_AUTOSCALERS, Autoscaler)

    @cached_property
    def pods(self) -> dict[str, list[OwnedPod]] | Unavailable:
        """By the uid of their controllers."""
        found = self._listed(PODS, OwnedPod)
        return found if isinstance(found, Unavailable) else group_by_controller(found)

    @cached_property
    def sets(self) -> dict[str, list[ScaledWorkload]] | Unavailable:
        """ReplicaSets by the uid of their controllers."""
        found = self._replica_sets
        return found if isinstance(found, Unavailable) else group_by_controller(found)

    @cached_property
    def budgets(self) -> list[DisruptionBudget] | Unavailable:
        return self._listed(POD_DISRUPTION_BUDGETS, DisruptionBudget)

    @cached_property
    def absent(self) -> bool:
        """Whether the namespace does not exist, which empty lists do not tell. False also if it may
        not be read."""
        try:
            self._client.get(NAMESPACES, self._name)
        except RequestError as error:
            return isinstance(error, HttpStatusError) and error.status == 404
        return False

    def workload(self, kind: str, name: str) -> ScaledWorkload | None:
        every = _needed(self._workloads(kind))
        return next((each for each in every if each.metadata.name == name), None)

    def _workloads(self, kind: str) -> list[ScaledWorkload] | Unavailable:
        match kind:
            case DEPLOYMENTS.kind:
                return self._deployments
            case STATEFUL_SETS.kind:
                return self._stateful_sets
            case _:
                return self._replica_sets

    @cached_property
    def _deployments(self) -> list[ScaledWorkload] | Unavailable:
        return self._listed(DEPLOYMENTS, ScaledWorkload)

    @cached_property
    def _stateful_sets(self) -> list[ScaledWorkload] | Unavailable:
        return self._listed(STATEFUL_SETS, ScaledWorkload)

    @cached_property
    def _replica_sets(self) -> list[ScaledWorkload] | Unavailable:
        return self._listed(REPLICA_SETS, ScaledWorkload)

    def _listed(self, resource: Resource, kind: type[Decoded]) -> list[Decoded] | Unavailable:
        try:
            return self._client.list(resource, _reading(resource, kind), namespace=self._name).items
        except RequestError as error:
            return Unavailable(
                Reason.KUBERNETES_ERROR, _describe_failure(error, resource, self._name)
            )
        except InvalidError as error:
            return Unavailable(Reason.KUBERNETES_ERROR, str(error))


def _reading(resource: Resource, kind: type[Decoded]) -> Callable[[msgspec.Raw], Decoded]:
    return lambda raw: decode_struct(raw, kind, f"a {resource.kind} of the API server")


def _needed(found: T | Unavailable) -> T:
    if isinstance(found, Unavailable):
        raise _UnavailableError(found)
    return found


def _read_workload(place: _Namespace, settings: WorkloadSettings) -> ObservedWorkload:
    named = partial(_named, place, settings)
    choice = choose(_needed(place.autoscalers), settings, lambda: named() is not None)
    if isinstance(choice, AutoscalerChoice):
        kind, workload = choice.target.kind, _scaled(place, settings, choice.target)
    elif choice.reason is Reason.HPA_TARGET_MISSING:
        kind, workload = named() or _no_workload(place, settings, choice)
    else:
        raise _UnavailableError(choice)
    meta = workload.metadata
    name = WorkloadName(settings.namespace, kind, meta.name)
    owned = _owned(place, name, meta.uid)
    return ObservedWorkload(
        workload=name,
        api_version=_ROTATED[kind].api_version,
        uid=meta.uid,
        resource_version=meta.resource_version,
        pods=_selected(owned, settings, name),
        hpa_target=choice.hpa_target if isinstance(choice, AutoscalerChoice) else choice,
        scaling=_scaling(kind, workload, choice, owned),
        opted_out=workload_opted_out(meta.annotations),
        last=_last(workload, name),
        budgets=_budgets(place, owned),
    )


def _scaled(place: _Namespace, settings: WorkloadSettings, target: ScaleTarget) -> ScaledWorkload:
    """The workload that the autoscaler names."""
    group = target.api_version.rpartition("/")[0]
    if target.kind not in _ROTATED or group != _ROTATED_GROUP:
        what = f"{target.kind} {target.name} ({target.api_version or 'no apiVersion'})"
        raise _missing(
            f"{what} is scaled in namespace {settings.namespace}; only {', '.join(_ROTATED)} of "
            f"{_ROTATED_GROUP} can be rotated"
        )
    found = place.workload(target.kind, target.name)
    if found is None:
        raise _missing(
            f"{target.kind} {settings.namespace}/{target.name} is not there, though a "
            "HorizontalPodAutoscaler scales it"
        )
    return found


def _named(place: _Namespace, settings: WorkloadSettings) -> tuple[str, ScaledWorkload] | None:
    """The workload that is called so, with its kind."""
    for kind in (settings.kind,) if settings.kind else _ROTATED:
        if kind in _ROTATED and (found := place.workload(kind, settings.name)) is not None:
            return kind, found
    return None


def _no_workload(place: _Namespace, settings: WorkloadSettings, problem: Unavailable) -> NoReturn:
    kinds = ", ".join(_ROTATED)
    if settings.kind and settings.kind not in _ROTATED:
        raise _missing(f"kind is {settings.kind}, but must be one of {kinds} to be rotated")
    if place.absent:
        raise _missing(f"namespace {settings.namespace} is not there")
    none = f"no {settings.kind or kinds} is called {settings.name} there either"
    hint = _ASSUMED if settings.namespace == _DEFAULT else ""
    raise _missing(f"{problem.because}, and {none}{hint}")


def _owned(place: _Namespace, name: WorkloadName, uid: str) -> list[OwnedPod]:
    sets = _needed(place.sets) if name.kind == DEPLOYMENTS.kind else {}
    return pods_owned_by(uid, _needed(place.pods), sets)


def _selected(
    owned: list[OwnedPod], settings: WorkloadSettings, name: WorkloadName
) -> tuple[PodUsage, ...]:
    selector = parse_selector(settings.selector, f"the label selector of {name}")
    found = select_pods(owned, selector)
    if owned and not found:
        raise _missing(
            f"none of the {len(owned)} pods of {name} has the labels {settings.selector}"
        )
    return found


def _budgets(place: _Namespace, owned: list[OwnedPod]) -> tuple[Budget, ...] | Gap:
    """Without the permission to list budgets, rotations are possible all the same."""
    found = place.budgets
    return Gap(found.because) if isinstance(found, Unavailable) else covering_budgets(found, owned)


def _describe_failure(error: RequestError, resource: Resource, namespace: str) -> str:
    """Names a missing permission as a Role would grant it."""
    if isinstance(error, HttpStatusError) and error.status == 403:
        group = f" of {resource.group}" if resource.group else ""
        return (
            f"the verb list on {resource.plural}{group} is not granted in namespace {namespace}: "
            f"{error}"
        )
    if isinstance(error, HttpStatusError) and error.status == 404:
        return f"the API server does not serve {resource.plural} of {resource.api_version}: {error}"
    return str(error)


def _missing(because: str) -> _UnavailableError:
    return _UnavailableError(Unavailable(Reason.WORKLOAD_MISSING, because))


def _scaling(
    kind: str,
    workload: ScaledWorkload,
    choice: AutoscalerChoice | Unavailable,
    owned: list[OwnedPod],
) -> Scaling:
    """Prefers the autoscaler's numbers; if these agree, the workload's own, since somebody else may
    have scaled it. During a rollout its own numbers mean something else. If the autoscaler has what
    it wants and pods are merely missing, that is not scaling."""
    wanted, there = workload.spec.replicas, workload.status.replicas
    pending = _pending(wanted, owned)
    absent = f"{there} of {wanted} pods are there, the others are missing" if there < wanted else ""
    rollout = pending or rollout_of(kind, workload) or absent
    if isinstance(choice, AutoscalerChoice):
        if (pending or absent) and choice.current <= choice.desired == wanted:
            return Scaling(wanted, wanted, rollout)
        if choice.desired != choice.current or rollout:
            return Scaling(choice.desired, choice.current, rollout)
    return Scaling(there if rollout else wanted, there, rollout)


def _pending(wanted: int, owned: list[OwnedPod]) -> str:
    """If a pod cannot be scheduled, the replacement of another cannot be either."""
    staying = [pod for pod in owned if not pod.metadata.deletion_timestamp]
    pending = sum(not pod.spec.node_name for pod in staying)
    if pending == 1:
        return f"1 of {wanted} pods is Pending: no node was found for it yet"
    return (
        f"{pending} of {wanted} pods are Pending: no node was found for them yet" if pending else ""
    )


def _last(workload: ScaledWorkload, name: WorkloadName) -> LastRotation | Gap | None:
    text = workload.metadata.annotations.get(last_rotation.ANNOTATION)
    return None if text is None else last_rotation.decode_last_rotation(text, name, timestamp)


def covering_budgets(
    budgets: Iterable[DisruptionBudget], pods: Sequence[OwnedPod]
) -> tuple[Budget, ...]:
    """Budgets that cover at least one of the pods, sorted by name."""
    found = []
    for each in budgets:
        covered = frozenset(p.metadata.name for p in pods if each.covers(p.metadata.labels))
        if covered:
            allowed = max(each.status.disruptions_allowed, 0)
            found.append(Budget(each.metadata.name, allowed, covered))
    return tuple(sorted(found, key=lambda budget: budget.name))


def group_by_controller(objects: Iterable[Owned]) -> dict[str, list[Owned]]:
    """By the controller's uid, which is unique unlike its name; objects without one are left
    out."""
    found: dict[str, list[Owned]] = {}
    for each in objects:
        controller = each.metadata.controller
        if controller is not None and controller.uid:
            found.setdefault(controller.uid, []).append(each)
    return found


def pods_owned_by(
    uid: str,
    pods: Mapping[str, Sequence[OwnedPod]],
    sets: Mapping[str, Sequence[ScaledWorkload]],
) -> list[OwnedPod]:
    """Live pods controlled by this uid, directly or by one of its ReplicaSets. `pods` and `sets`
    are by their controllers. Finished pods use nothing and cannot be evicted."""
    owners = [uid, *(each.metadata.uid for each in sets.get(uid, ()))]
    return [pod for owner in owners for pod in pods.get(owner, ()) if not pod.is_finished()]


def select_pods(pods: Sequence[OwnedPod], selector: LabelSelector) -> tuple[PodUsage, ...]:
    """Raises InvalidError if one of them cannot be understood."""
    return tuple(read_pod(pod) for pod in pods if selector.selects(pod.metadata.labels))


def read_pod(pod: OwnedPod) -> PodUsage:
    return PodUsage(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        started=_started(pod),
        containers=tuple(_amounts(pod, each) for each in pod.staying()),
        running=pod.is_running(),
        ready=pod.is_ready(),
        terminating=bool(pod.metadata.deletion_timestamp),
        held_back=pod_held_back(pod),
        pod_level=_pod_level(pod),
    )


def _started(pod: OwnedPod) -> float:
    """Seconds since 1970."""
    stated = began(pod)
    at = timestamp(stated.value) if isinstance(stated.value, str) else None
    if at is None:
        raise stated.refused("a time such as 2026-11-17T10:00:00Z")
    return at


def timestamp(text: str) -> float | None:
    """RFC 3339 as seconds since 1970; None if it is not."""
    at = parse_timestamp(text)
    return None if at is None else at.timestamp()


def _amounts(pod: OwnedPod, container: PodContainer) -> ContainerAmounts:
    request = cores_of(pod, container, Amount.REQUEST)
    limit = cores_of(pod, container, Amount.LIMIT)
    return ContainerAmounts(container.name, _typed(request), _typed(limit))


def _pod_level(pod: OwnedPod) -> ContainerAmounts | None:
    """Requests and limits of the pod as a whole, as the HPA reads them (calculateRequests in
    pkg/controller/podautoscaler/replica_calculator.go)."""
    if pod.spec.resources == Resources():
        return None
    request, limit = pod_cores_of(pod, Amount.REQUEST), pod_cores_of(pod, Amount.LIMIT)
    return ContainerAmounts("", _typed(request), _typed(limit))


def _typed(amount: float | Gap) -> Cores | Gap:
    return amount if isinstance(amount, Gap) else Cores(amount)


def workload_opted_out(annotations: Mapping[str, str]) -> str:
    """Which annotation forbids rotation, as a clause; empty if none does. An invalid value forbids
    it: somebody wanted something, and waiting does no harm."""
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
    """Why this pod must not be rotated, as a clause; empty if it may be."""
    annotations = pod.metadata.annotations
    if pod.is_static():
        return "it is a static pod, which its node alone decides on"
    if clause := workload_opted_out(annotations):
        return clause
    if PREFER_NO_EVICTION in annotations:
        return f"it has the annotation {PREFER_NO_EVICTION}"
    if parse_bool(annotations.get(EVICT, "")) is False:
        return f"its annotation {EVICT} is {quoted(annotations[EVICT])}"
    return ""
