"""Keeps what `slackwater status` shows of a cluster current, by list and watch.

For who looks at it for hours: a thousand nodes are listed once, and then the server sends what
changes. Whatever else than the nodes may not be read is a Gap or a note, as in the status.
"""

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from slackwater.contract.resources import ENSURANCE_KINDS, LEASES, NODES, PODS
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer, InformerView, WatchPace
from slackwater.kube.lease import LeaseSpec
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.status.api_objects import (
    AgentPod,
    ClusterNode,
    read_agent_pod,
    read_judged_policy,
    read_lease,
    read_node,
)
from slackwater.status.cluster_status import ClusterFacts
from slackwater.status.fetch import AGENT_PODS

#: One person looks, so nothing has to be spread; a kind may be installed while they look.
_PACE = WatchPace(
    first_wait=0.5, longest_wait=5.0, unknown_wait=30.0, start_spread=0.0, reopen_spread=0.5
)
#: Seconds between two looks at the manager's Lease, which is renewed every few seconds.
_LEASE_PERIOD = 5.0
_NOT_FOUND = "NotFound"


class LeaseName(msgspec.Struct, frozen=True):
    """The manager's Lease."""

    namespace: str
    name: str


class WatchedFacts(msgspec.Struct, frozen=True):
    """`lost` is why the nodes cannot be watched now, empty while they are; before they are listed
    for the first time `facts` is None."""

    facts: ClusterFacts | None
    lost: str = ""


class ClusterWatch:
    """Guards the informers, and the thread that asks for the Lease."""

    def __init__(
        self, client: Client, server: str, lease: LeaseName, clock: Callable[[], Micros]
    ) -> None:
        self._client = client
        self._server = server
        self._lease_name = lease
        jitter = random.Random()  # noqa: S311 - it spreads requests, it hides nothing
        make: Any = partial(Informer, client, clock=clock, jitter=jitter, pace=_PACE)
        self._nodes: Informer[ClusterNode] = make(NODES, read_node)
        self._pods: Informer[AgentPod] = make(PODS, read_agent_pod, selector=AGENT_PODS)
        self._policies = {
            resource: make(resource, partial(read_judged_policy, kind=resource.kind))
            for resource in ENSURANCE_KINDS
        }
        self._lease: LeaseSpec | Gap | None = Gap("the manager's lease was not read yet")
        self._stopping = threading.Event()
        self._lease_thread = threading.Thread(target=self._follow_lease, daemon=True)

    def start(self) -> None:
        for informer in self._informers():
            informer.start()
        self._lease_thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for informer in self._informers():
            informer.stop()

    def wait_listed(self, seconds: float) -> bool:
        return self._nodes.wait_synced(seconds)

    def look(self) -> WatchedFacts:
        """Never waits for the network."""
        nodes, pods = self._nodes.view(), self._pods.view()
        if not nodes.synced:
            return WatchedFacts(None, nodes.problem)
        views = {resource: informer.view() for resource, informer in self._policies.items()}
        unseen = {
            resource.kind: view.problem
            for resource, view in views.items()
            if view.forbidden or (view.problem and not view.synced and not view.unknown_kind)
        }
        unseen |= _unreadable(NODES.kind, nodes)
        for resource, view in views.items():
            unseen |= _unreadable(resource.kind, view)
        facts = ClusterFacts(
            server=self._server,
            nodes=tuple(nodes.items.values()),
            pods=_pods(pods),
            policies=tuple(each for view in views.values() for each in view.items.values()),
            missing=tuple(resource.kind for resource, view in views.items() if view.unknown_kind),
            unseen=unseen,
            lease=self._lease,
        )
        return WatchedFacts(facts, nodes.problem)

    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._nodes, self._pods, *self._policies.values())

    def _follow_lease(self) -> None:
        while not self._stopping.is_set():
            self._lease = self._read_lease()
            self._stopping.wait(_LEASE_PERIOD)

    def _read_lease(self) -> LeaseSpec | Gap | None:
        name = self._lease_name
        try:
            return read_lease(self._client.get(LEASES, name.name, name.namespace))
        except HttpStatusError as error:
            return None if error.reason == _NOT_FOUND else Gap(str(error))
        except RequestError as error:
            return Gap(str(error))
        except msgspec.DecodeError as error:
            return Gap(f"the lease {name.name} cannot be read: {error}")


def _pods(view: InformerView[AgentPod]) -> tuple[AgentPod, ...] | Gap:
    """Before they are listed nobody can say that a node's agent is gone."""
    if view.synced:
        return tuple(view.items.values())
    return Gap(view.problem or "the agents' pods are not listed yet")


def _unreadable(kind: str, view: InformerView[Any]) -> dict[str, str]:
    if not view.unreadable:
        return {}
    first = next(iter(view.unreadable.values()))
    return {kind: f"one or more of them cannot be read: {first}"}
