"""What a controller is: the kinds that it watches, and a pure function to what should be applied.

It reads one view of the cluster and the time, and returns every status that should stand there;
the loop writes those that do not. So a controller can be tested without a cluster, and a follower
runs none of it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from slackwater.contract.crane.fields import EnsuranceStatus
from slackwater.contract.resources import NODES, Resource
from slackwater.kube.events import KubeEvent
from slackwater.kube.informer import InformerView
from slackwater.manager.policy_object import PolicyObject
from slackwater.status.api_objects import ClusterNode

_NOT_INSTALLED = "the cluster does not know this kind: its definition is not installed"


class ClusterView(msgspec.Struct, frozen=True):
    """The informers' caches at one time."""

    nodes: InformerView[ClusterNode]
    policies: Mapping[Resource, InformerView[PolicyObject]]

    def by_kind(self) -> Mapping[Resource, InformerView[Any]]:
        return {NODES: self.nodes, **self.policies}

    def unsynced(self, kinds: Iterable[Resource]) -> tuple[str, ...]:
        """Those of the kinds that were never listed though the cluster has them, each with the
        reason. An object that was not listed yet is not a missing one."""
        views = self.by_kind()
        return tuple(
            f"{kind.kind}: {views[kind].problem or 'not listed yet'}"
            for kind in kinds
            if not views[kind].synced and not views[kind].unknown_kind
        )

    def problems(self) -> Mapping[str, str]:
        """Why a kind cannot be watched now; empty for one that can."""
        return {
            resource.kind: _NOT_INSTALLED if view.unknown_kind else view.problem
            for resource, view in self.by_kind().items()
        }


class DesiredStatus(msgspec.Struct, frozen=True):
    """The status that one object should have. `meaning` is the status without its times: equal
    where only they differ. `outcome` and `because` are for the log; `event` is sent once the
    status was written."""

    resource: Resource
    name: str
    uid: str
    status: EnsuranceStatus
    meaning: EnsuranceStatus
    is_current: bool
    outcome: str = ""
    because: str = ""
    event: KubeEvent | None = None

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


class Controller(msgspec.Struct, frozen=True):
    """`reconcile` is given the time of day in RFC 3339. It runs once every kind in `watches` has
    been listed."""

    name: str
    watches: tuple[Resource, ...]
    reconcile: Callable[[ClusterView, str], tuple[DesiredStatus, ...]]
