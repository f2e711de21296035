"""What the API server knows about a workload: its autoscaler, its pods, whether it is in motion.

Owns the lists: each kind of a namespace is asked for once, so that all workloads of a round see
the same moment; a new round needs a new reader. Changes nothing. What cannot be had is a Problem
with one sentence.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from slackwater.contract.autoscaling import Autoscaler, ScaleTarget
from slackwater.contract.document import ContractError
from slackwater.contract.owned_pod import OwnedPod
from slackwater.contract.scaled_workload import OwnedSet, ScaledWorkload, rollout_of
from slackwater.contract.selector_text import parse_selector
from slackwater.contract.typed_document import decode_typed
from slackwater.kube.answer import KubeError, Refused
from slackwater.kube.client import Client
from slackwater.kube.resource import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from slackwater.model.gap import Gap
from slackwater.rebalancer import last_rotation
from slackwater.rebalancer.autoscalers import Choice, choose
from slackwater.rebalancer.fleet import LastRotation, Scaling, WorkloadName
from slackwater.rebalancer.live_pods import live_pods, owned_by
from slackwater.rebalancer.opt_out import workload_opted_out
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.seen import LivePod, Problem, WorkloadSeen
from slackwater.settings.rotation import WorkloadSettings

T = TypeVar("T", bound=msgspec.Struct)

#: The kinds that replace a pod that goes.
_ROTATED = {each.kind: each for each in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}
_ROTATED_GROUP = "apps"


class _Impossible(Exception):  # noqa: N818 - it reads as what it is
    """Why this workload cannot be seen; inside of this module only."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.because)
        self.problem = problem


class ClusterReader:
    """One round's view of the API server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lists: dict[tuple[type, Resource, str], object] = {}

    def read(self, settings: WorkloadSettings) -> WorkloadSeen | Problem:
        try:
            return self._seen(settings)
        except _Impossible as impossible:
            return impossible.problem
        except ContractError as error:
            return Problem(Reason.KUBERNETES_ERROR, str(error))

    def _seen(self, settings: WorkloadSettings) -> WorkloadSeen:
        choice = choose(self._all(HORIZONTAL_POD_AUTOSCALERS, Autoscaler, settings), settings)
        if isinstance(choice, Problem):
            if choice.reason is not Reason.HPA_TARGET_MISSING:
                raise _Impossible(choice)
            kind, workload = self._unscaled(settings, choice)
        else:
            kind, workload = choice.target.kind, self._scaled(settings, choice.target)
        meta = workload.metadata
        name = WorkloadName(settings.namespace, kind, meta.name)
        return WorkloadSeen(
            workload=name,
            api_version=_ROTATED[kind].api_version,
            uid=meta.uid,
            resource_version=meta.resource_version,
            pods=self._pods(settings, name, meta.uid),
            aim=choice if isinstance(choice, Problem) else choice.aim,
            scaling=_scaling(kind, workload, choice),
            opted_out=workload_opted_out(meta.annotations),
            last=_last(workload, name),
        )

    def _scaled(self, settings: WorkloadSettings, target: ScaleTarget) -> ScaledWorkload:
        """What the autoscaler names."""
        group = target.api_version.rpartition("/")[0]
        if target.kind not in _ROTATED or group != _ROTATED_GROUP:
            raise _missing(
                f"{target.kind} {target.name} ({target.api_version}) is scaled in namespace "
                f"{settings.namespace}; only {', '.join(_ROTATED)} of {_ROTATED_GROUP} can be "
                "rotated"
            )
        found = self._called(_ROTATED[target.kind], target.name, settings)
        if found is None:
            raise _missing(
                f"{target.kind} {settings.namespace}/{target.name} is not there, though a "
                "HorizontalPodAutoscaler scales it"
            )
        return found

    def _unscaled(self, settings: WorkloadSettings, problem: Problem) -> tuple[str, ScaledWorkload]:
        """A workload without an autoscaler, which can be shown but not judged."""
        if settings.kind and settings.kind not in _ROTATED:
            kinds = ", ".join(_ROTATED)
            raise _missing(f"kind is {settings.kind}, but must be one of {kinds} to be rotated")
        for kind, resource in _ROTATED.items():
            if settings.kind in ("", kind) and (
                found := self._called(resource, settings.name, settings)
            ):
                return kind, found
        kinds = settings.kind or f"{', '.join(_ROTATED)}"
        raise _missing(f"{problem.because}, and no {kinds} is called {settings.name} there either")

    def _called(
        self, resource: Resource, name: str, settings: WorkloadSettings
    ) -> ScaledWorkload | None:
        every = self._all(resource, ScaledWorkload, settings)
        return next((each for each in every if each.metadata.name == name), None)

    def _pods(
        self, settings: WorkloadSettings, name: WorkloadName, uid: str
    ) -> tuple[LivePod, ...]:
        selector = parse_selector(settings.selector, f"the label selector of {name}")
        sets = self._all(REPLICA_SETS, OwnedSet, settings) if name.kind == "Deployment" else []
        owned = owned_by(uid, self._all(PODS, OwnedPod, settings), sets)
        found = live_pods(owned, selector)
        if owned and not found:
            raise _missing(
                f"none of the {len(owned)} pods of {name} has the labels {settings.selector}"
            )
        return found

    def _all(self, resource: Resource, kind: type[T], settings: WorkloadSettings) -> list[T]:
        """Of the namespace, asked for once; a refusal is remembered as well."""
        key = (kind, resource, settings.namespace)
        if key not in self._lists:
            self._lists[key] = self._listed(resource, kind, settings.namespace)
        found = self._lists[key]
        if isinstance(found, Problem):
            raise _Impossible(found)
        return found  # type: ignore[return-value]

    def _listed(self, resource: Resource, kind: type[T], namespace: str) -> list[T] | Problem:
        read = _reading(resource, kind)
        try:
            return self._client.list(resource, read, namespace=namespace).items
        except KubeError as error:
            return Problem(Reason.KUBERNETES_ERROR, _told(error, resource, namespace))
        except ContractError as error:
            return Problem(Reason.KUBERNETES_ERROR, str(error))


def _reading(resource: Resource, kind: type[T]) -> Callable[[msgspec.Raw], T]:
    return lambda raw: decode_typed(raw, kind, f"a {resource.kind} of the API server")


def _told(error: KubeError, resource: Resource, namespace: str) -> str:
    """A right that is missing is named as a Role would grant it."""
    if isinstance(error, Refused) and error.status == 403:
        group = f" of {resource.group}" if resource.group else ""
        return (
            f"the verb list on {resource.plural}{group} is not granted in namespace {namespace}: "
            f"{error}"
        )
    if isinstance(error, Refused) and error.status == 404:
        return f"the API server does not serve {resource.plural} of {resource.api_version}: {error}"
    return str(error)


def _missing(because: str) -> _Impossible:
    return _Impossible(Problem(Reason.WORKLOAD_MISSING, because))


def _scaling(kind: str, workload: ScaledWorkload, choice: Choice | Problem) -> Scaling:
    """By the autoscaler; where that is content, by the workload itself: somebody else may have
    scaled it. During a rollout its own numbers mean something else."""
    rollout = rollout_of(kind, workload)
    if isinstance(choice, Choice) and (choice.desired != choice.current or rollout):
        return Scaling(choice.desired, choice.current, rollout)
    wanted, there = workload.spec.replicas, workload.status.replicas
    return Scaling(there if rollout else wanted, there, rollout)


def _last(workload: ScaledWorkload, name: WorkloadName) -> LastRotation | Gap | None:
    text = workload.metadata.annotations.get(last_rotation.ANNOTATION)
    return None if text is None else last_rotation.read_last(text, name)
