"""A manager's loop with an API server of dictionaries: what it writes is what it sees next."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import msgspec

from slackwater.contract.crane.fields import EnsuranceStatus
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.resources import NODES, Resource
from slackwater.http.errors import RequestError
from slackwater.kube.events import KubeEvent
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import ClusterView, watched_kinds
from slackwater.manager.controllers.controller import DesiredWrite
from slackwater.manager.object_writer import ObjectWriter
from slackwater.manager.policy_object import PolicyObject
from slackwater.manager.program import ManagerDependencies, ManagerLoop, build_controllers
from slackwater.manager.slo_config_memory import SloConfigMemory
from slackwater.manager.state import ManagerState
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import ChangeLog
from slackwater.settings.manager import ManagerSettings
from slackwater.status.api_objects import ClusterNode

START = dt.datetime(2026, 11, 17, 10, tzinfo=dt.UTC)


class FakeRecorder:
    """Keeps the events."""

    def __init__(self) -> None:
        self.sent: list[KubeEvent] = []
        self.why_not = ""

    def send(self, event: KubeEvent) -> None:
        self.sent.append(event)

    def problem(self) -> str:
        return self.why_not


class Managed:
    """The loop, what it looks at, and all that it did."""

    def __init__(self, objects: Iterable[PolicyObject], nodes: Iterable[str] = ("n1",)) -> None:
        self.objects = {each.uid: each for each in objects}
        self.nodes = {name: ClusterNode(name, {}) for name in nodes}
        self.leading = True
        self.who_leads = "me"
        self.lease_problem = ""
        self.views: dict[Resource, dict[str, Any]] = {}
        self.echoes = True
        self.fails_with: RequestError | None = None
        self.writes: list[tuple[str, EnsuranceStatus]] = []
        self.recorder = FakeRecorder()
        self.events = self.recorder.sent
        self.told: list[JournalEntry] = []
        self.state = ManagerState(Micros(0))
        writer = ObjectWriter(self._apply)
        log = ChangeLog(self.told.append)
        controllers = build_controllers(ManagerSettings(), "slackwater-system")
        self.loop = ManagerLoop(
            ManagerDependencies(
                self,
                self,
                writer,
                self.recorder,
                self.state,
                log,
                controllers,
                SloConfigMemory(SloConfigName()),
            )
        )
        self.second = 0

    def go(self, rounds: int = 1) -> None:
        """A round each second."""
        for _ in range(rounds):
            self.second += 1
            at = Micros(self.second * 1_000_000)
            self.loop.once(at, START + dt.timedelta(seconds=self.second))

    def put(self, found: PolicyObject) -> None:
        """Somebody changed an object: its status stays."""
        before = self.objects.get(found.uid)
        status = before.status if before else None
        self.objects[found.uid] = msgspec.structs.replace(found, status=status)

    def look(self) -> ClusterView:
        return ClusterView(
            {
                kind: InformerView(
                    **{
                        "items": self._items(kind.resource),
                        "synced": True,
                        **self.views.get(kind.resource, {}),
                    }
                )
                for kind in watched_kinds(SloConfigName())
            }
        )

    def _items(self, resource: Resource) -> dict[str, Any]:
        if resource == NODES:
            return dict(self.nodes)
        return {e.name: e for e in self.objects.values() if e.resource == resource}

    def leads(self) -> bool:
        return self.leading

    def leader(self) -> str:
        return self.who_leads

    def problem(self) -> str:
        return self.lease_problem

    def _apply(self, desired: DesiredWrite) -> None:
        if self.fails_with is not None:
            raise self.fails_with
        self.writes.append((desired.name, desired.body))
        if self.echoes:
            found = self.objects[desired.uid]
            self.objects[desired.uid] = msgspec.structs.replace(found, status=desired.body)
