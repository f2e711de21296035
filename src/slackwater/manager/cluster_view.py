"""What controllers read: kinds of objects, as the informers hold them at one time.

A kind is named once, here, with how its objects are read; informers, metrics and readiness follow
from the tuple of them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from slackwater.contract.crane.prediction import TEMPLATE_NAME
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.koordinator.topology import ReportedInfo, read_reported_info
from slackwater.contract.resources import (
    CONFIG_MAPS,
    ENSURANCE_KINDS,
    NODE_TOPOLOGIES,
    NODES,
    PODS,
    TIME_SERIES_PREDICTIONS,
    Resource,
)
from slackwater.kube.informer import InformerView
from slackwater.manager.policy_object import PolicyObject, reader_of
from slackwater.manager.prediction_object import (
    PredictionObject,
    TemplateObject,
    read_prediction_object,
    read_template_object,
)
from slackwater.manager.predictor.outcomes import PredictionOutcome
from slackwater.manager.scheduled_pod import SCHEDULED, ScheduledPod, read_scheduled_pod
from slackwater.manager.slo_config_memory import (
    SloConfigObject,
    SloConfigState,
    read_slo_config_object,
)
from slackwater.status.api_objects import ClusterNode, read_node

T = TypeVar("T")

_NOT_INSTALLED = "the cluster does not know this kind: its definition is not installed"


class WatchedKind(msgspec.Struct, Generic[T], frozen=True):
    """`name`: only objects of this name, in any namespace; `fields`: only those that this field
    selector selects. `waits`: once all are listed, a change waits for the next round, because there
    are thousands of them and one changes every second."""

    resource: Resource
    read: Callable[[msgspec.Raw], T]
    name: str = ""
    waits: bool = False
    fields: str = ""

    def __str__(self) -> str:
        return f"{self.resource.kind}/{self.name}" if self.name else self.resource.kind


NODE_KIND: WatchedKind[ClusterNode] = WatchedKind(NODES, read_node, waits=True)
POLICY_KINDS: Mapping[Resource, WatchedKind[PolicyObject]] = {
    resource: WatchedKind(resource, reader_of(resource)) for resource in ENSURANCE_KINDS
}
TEMPLATE_KIND: WatchedKind[TemplateObject] = WatchedKind(
    CONFIG_MAPS, read_template_object, name=TEMPLATE_NAME
)
PREDICTION_KIND: WatchedKind[PredictionObject] = WatchedKind(
    TIME_SERIES_PREDICTIONS, read_prediction_object, waits=True
)
TOPOLOGY_KIND: WatchedKind[ReportedInfo] = WatchedKind(
    NODE_TOPOLOGIES, read_reported_info, waits=True
)
POD_KIND: WatchedKind[ScheduledPod] = WatchedKind(
    PODS, read_scheduled_pod, waits=True, fields=SCHEDULED
)


def slo_config_kind(source: SloConfigName) -> WatchedKind[SloConfigObject]:
    return WatchedKind(CONFIG_MAPS, read_slo_config_object, name=source.name)


def watched_kinds(slo_config: SloConfigName) -> tuple[WatchedKind[Any], ...]:
    """`slo_config` is where the model of CPU normalization is."""
    return (
        NODE_KIND,
        *POLICY_KINDS.values(),
        TEMPLATE_KIND,
        PREDICTION_KIND,
        slo_config_kind(slo_config),
        TOPOLOGY_KIND,
        POD_KIND,
    )


class ClusterView(msgspec.Struct, frozen=True):
    """The informers' caches at one time. `outcomes` are what the predictor has to say, by an
    object's uid; None where it has nobody to ask. `slo_config` is what is in force of the ConfigMap
    with the model of CPU normalization."""

    views: Mapping[WatchedKind[Any], InformerView[Any]]
    outcomes: Mapping[str, PredictionOutcome] | None = None
    slo_config: SloConfigState = SloConfigState()

    def of(self, kind: WatchedKind[T]) -> InformerView[T]:
        return self.views[kind]

    @property
    def nodes(self) -> InformerView[ClusterNode]:
        return self.of(NODE_KIND)

    @property
    def policies(self) -> Mapping[Resource, InformerView[PolicyObject]]:
        return {resource: self.of(kind) for resource, kind in POLICY_KINDS.items()}

    def unsynced(self, kinds: Iterable[WatchedKind[Any]]) -> tuple[str, ...]:
        """Those of the kinds that were never listed though the cluster has them, each with the
        reason. An object that was not listed yet is not a missing one."""
        return tuple(
            f"{kind}: {self.views[kind].problem or 'not listed yet'}"
            for kind in kinds
            if not self.views[kind].synced and not self.views[kind].unknown_kind
        )

    def problems(self) -> Mapping[str, str]:
        """Why a kind cannot be watched now; empty for one that can."""
        return {
            str(kind): _NOT_INSTALLED if view.unknown_kind else view.problem
            for kind, view in self.views.items()
        }
