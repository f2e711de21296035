"""A workload that replaces its pods, with a clock that only moves when somebody waits.

It answers as the API server does: versions, uids, a disruption budget. What the rebalancer writes
is what it reads next. All calls are kept.
"""
# ruff: noqa: ARG002 - it has the methods of a client, and needs less than one

from collections.abc import Callable, Mapping

import msgspec

from slackwater.contract.resources import Resource
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import PatchKind
from slackwater.kube.events import KubeEvent
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Sources
from slackwater.rebalancer.last_rotation import ANNOTATION, decode_last_rotation
from slackwater.rebalancer.observed import (
    Lag,
    LastRotation,
    NamespaceUsage,
    ObservedWorkload,
    PodUsage,
    Scaling,
    Unavailable,
    WorkloadName,
)
from slackwater.rebalancer.rotation import PodWriter, RemovalAttempt, RotationContext
from slackwater.rebalancer.run import RoundDependencies
from slackwater.rebalancer.sources.cluster_reader import timestamp
from slackwater.record.journal import JournalEntry
from slackwater.settings.rebalancer import Removal, RunSettings, WorkloadSettings
from tests.unit.rebalancer.workloads import F6, HPA70, NAME, NOON, cores, live, pod_usage

BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
SETTINGS = WorkloadSettings("shop", "web")
RUN = RunSettings(workloads=(SETTINGS,))


def refused(status: int, reason: str, message: str, *causes: str) -> HttpStatusError:
    return HttpStatusError("POST /x", status, reason, message, causes=causes)


def pod(name: str, usage: float = 1.2) -> PodUsage:
    return pod_usage(name, usage)


class World:
    """One Deployment; `second` is the time since noon."""

    def __init__(
        self,
        usages: Mapping[str, float] = F6,
        ready_after: float = 5.0,
        workload: WorkloadName = NAME,
    ) -> None:
        self.usages = dict(usages)
        self.ready_after = ready_after
        self.workload = workload
        self.second = 0.0
        self.pods: dict[str, PodUsage] = {f"uid-{name}": live(name) for name in usages}
        self.ready_at: dict[str, float] = {}
        self.desired: int | None = None
        self.rollout = ""
        self.opted_out = ""
        self.annotation: str | None = None
        self.version = 7
        self.uid = "uid-web"
        #: How many more may be evicted; None: any number.
        self.budget: int | None = None
        self.refusals: dict[str, RequestError] = {}
        #: Raised after a pod was removed, as if the answer had been lost on its way.
        self.lost_answer: RequestError | None = None
        self.patch_refusals: list[RequestError] = []
        self.problem: Unavailable | None = None
        self.usage_problem: Unavailable | None = None
        self.halt = ""
        self.lag: Lag | Gap = Lag(0, "a test")
        #: Happens when it is looked at for the n-th time.
        self.on_look: dict[int, Callable[[], None]] = {}
        self.looks = 0
        #: The fewest that were ever Ready.
        self.least_ready = len(usages)
        self.calls: list[str] = []
        self.attempts: list[RemovalAttempt] = []
        self.told: list[JournalEntry] = []
        self.sent: list[KubeEvent] = []

    # What it is

    def read(self, settings: WorkloadSettings = SETTINGS) -> ObservedWorkload | Unavailable:
        self.looks += 1
        self.on_look.get(self.looks, lambda: None)()
        self._settle()
        if self.problem is not None:
            return self.problem
        pods = tuple(self.pods.values())
        wanted = len(self.usages) if self.desired is None else self.desired
        return ObservedWorkload(
            workload=self.workload,
            api_version="apps/v1",
            uid=self.uid,
            resource_version=str(self.version),
            pods=pods,
            hpa_target=HPA70,
            scaling=Scaling(wanted, len(self.usages), self.rollout),
            opted_out=self.opted_out,
            last=self.last(),
        )

    def observed(self) -> ObservedWorkload:
        found = self.read()
        assert isinstance(found, ObservedWorkload)
        return found

    def last(self) -> LastRotation | Gap | None:
        return (
            None
            if self.annotation is None
            else decode_last_rotation(self.annotation, self.workload, timestamp)
        )

    def usage(self, _namespace: str, _window: Micros, _at: float) -> NamespaceUsage | Unavailable:
        if self.usage_problem is not None:
            return self.usage_problem
        used = {(name, "web"): cores(self.usages.get(name, 0.7)) for name in self._names()}
        return NamespaceUsage(used, {})

    def change(self, name: str, **fields: object) -> None:
        uid = f"uid-{name}"
        self.pods[uid] = msgspec.structs.replace(self.pods[uid], **fields)

    def wait(self, seconds: float) -> bool:
        self.second += seconds
        return bool(self.halt)

    def _names(self) -> list[str]:
        return [each.name for each in self.pods.values()]

    def _settle(self) -> None:
        for uid, at in list(self.ready_at.items()):
            if self.second >= at and uid in self.pods:
                self.pods[uid] = msgspec.structs.replace(self.pods[uid], ready=True, running=True)
                del self.ready_at[uid]
                self.version += 1

    # What a client may do to it

    def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        uid = next((uid for uid, each in self.pods.items() if each.name == name), None)
        if uid is None:
            raise refused(404, "NotFound", name)
        return msgspec.json.encode({"metadata": {"name": name, "uid": uid}})

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        assert not dry_run
        if self.budget == 0:
            raise refused(429, "TooManyRequests", BUDGET, "DisruptionBudget")
        self._remove("evict", name, uid)
        if self.budget is not None:
            self.budget -= 1

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        self._remove("delete", name, uid)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        kind: PatchKind,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        assert isinstance(body, dict)
        meta = body["metadata"]
        self.calls.append("claim" if "resourceVersion" in meta else "note")
        if self.patch_refusals:
            raise self.patch_refusals.pop(0)
        if meta["uid"] != self.uid or meta.get("resourceVersion", str(self.version)) != str(
            self.version
        ):
            raise refused(409, "Conflict", "the object has been modified")
        self.version += 1
        self.annotation = meta["annotations"][ANNOTATION]
        return b"{}"

    def _remove(self, verb: str, name: str, uid: str) -> None:
        self.calls.append(f"{verb} {name}")
        if name in self.refusals:
            raise self.refusals[name]
        if uid not in self.pods:
            raise refused(404, "NotFound", f'pods "{name}" not found')
        del self.pods[uid]
        fresh = f"{name}-{len(self.calls)}"
        self.pods[f"uid-{fresh}"] = live(fresh, ready=False, running=False, started=NOON)
        self.ready_at[f"uid-{fresh}"] = self.second + self.ready_after
        self.least_ready = min(self.least_ready, sum(each.ready for each in self.pods.values()))
        self.version += 1
        if self.lost_answer is not None:
            raise self.lost_answer

    # What a round works with

    def context(self, removal: Removal = Removal.EVICT) -> RotationContext:
        return RotationContext(
            look=self.read,
            writer=PodWriter(self, removal, None),
            clock=lambda: self.second,
            wait=self.wait,
            halted=lambda: self.halt,
            on_attempt=self.attempts.append,
        )

    def sources(self) -> Sources:
        return _WorldSources(self)

    def dependencies(self, removal: Removal = Removal.EVICT) -> RoundDependencies:
        return RoundDependencies(
            sources=self.sources(),
            writer=PodWriter(self, removal, None),
            clock=lambda: self.second,
            wall=lambda: NOON + self.second,
            wait=self.wait,
            write=self.told.append,
            send_event=self.sent.append,
        )

    def removed(self) -> str:
        """Whom it was asked to remove, in order."""
        verbs = ("evict ", "delete ")
        return " ".join(call.split()[1] for call in self.calls if call.startswith(verbs))


class _WorldSources:
    def __init__(self, world: World) -> None:
        self._world = world
        self.observe = self.observe_again = world.read
        self.usage = world.usage

    def lag(self, _settings: WorkloadSettings) -> Lag | Gap:
        return self._world.lag

    def halted(self) -> str:
        return self._world.halt
