"""The manager as a program: a loop over controllers, of which only the leader's writes.

Owns the order of one round, the pause between two, and the order in which the parts start and
end: the Lease is given back once nothing is written any more, so that the next leader finds the
objects at rest. A kind that the cluster does not know, because its CRD is not installed, is
reported as such; its informer tries again, and the others go on.
"""

import contextlib
import datetime as dt
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from slackwater import __version__
from slackwater.contract.resources import ENSURANCE_KINDS, NODES
from slackwater.kube.access import Access
from slackwater.kube.api_time import format_time
from slackwater.kube.client import Client
from slackwater.kube.events import EventRecorder, KubeEvent
from slackwater.kube.informer import Informer, WatchPace
from slackwater.manager.controllers import policy_status
from slackwater.manager.controllers.controller import ClusterView, Controller, DesiredStatus
from slackwater.manager.policy_object import reader_of
from slackwater.manager.state import (
    METRICS,
    KindSummary,
    ManagerState,
    RoundSummary,
    samples,
    why_not_ready,
)
from slackwater.manager.status_writer import (
    FIELD_MANAGER,
    StatusWriteAttempt,
    StatusWriter,
    apply_with,
)
from slackwater.model.plan import Result
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import ChangeLog, EntrySink
from slackwater.runtime.health import ReplicaHealth
from slackwater.runtime.http_exchange import ListenAddress, Request, Response
from slackwater.runtime.leadership import Candidate, Leadership, taking_part
from slackwater.runtime.loop import monotonic_now, run_loop
from slackwater.runtime.status_endpoint import bound_endpoint
from slackwater.runtime.status_endpoint import respond as respond_with
from slackwater.runtime.wakeup import WakePipe, Woken
from slackwater.status.api_objects import read_node


class Informers:
    """Guards the informers."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], Micros],
        changed: Callable[[], None],
        jitter: random.Random,
    ) -> None:
        self._changed = changed
        self._nodes_listed = False
        self._nodes = Informer(
            client, NODES, read_node, clock=clock, changed=self._call_until_listed, jitter=jitter
        )
        self._kinds = {
            resource: Informer(
                client,
                resource,
                reader_of(resource),
                clock=clock,
                changed=changed,
                jitter=jitter,
                # Definitions are installed while it runs, and there are only two replicas.
                pace=WatchPace(unknown_wait=30.0),
            )
            for resource in ENSURANCE_KINDS
        }

    def start(self) -> None:
        self._nodes.start()
        for informer in self._kinds.values():
            informer.start()

    def stop(self) -> None:
        self._nodes.stop()
        for informer in self._kinds.values():
            informer.stop()

    def _call_until_listed(self) -> None:
        """Of a thousand nodes one changes every second, but hardly ever its labels: once they are
        listed, the next round comes soon enough by itself."""
        if not self._nodes_listed:
            self._nodes_listed = self._nodes.view().synced
            self._changed()

    def look(self) -> ClusterView:
        return ClusterView(
            self._nodes.view(),
            {resource: informer.view() for resource, informer in self._kinds.items()},
        )


CONTROLLERS: tuple[Controller, ...] = (policy_status.CONTROLLER,)
#: Seconds between the beginnings of two rounds: a burst of changes is one round.
SETTLE = 1.0
#: Longest pause between rounds, in seconds: a change of a Node alone does not start one. A round of
#: 5,000 nodes and 20 policies takes 0.2 s.
LONGEST_PAUSE = 10.0
_USER_AGENT = f"{FIELD_MANAGER}/{__version__}"


class ViewSource(Protocol):
    """The informers."""

    def look(self) -> ClusterView: ...


class EventSink(Protocol):
    def send(self, event: KubeEvent) -> None: ...

    def problem(self) -> str: ...


class ManagerDependencies(msgspec.Struct, frozen=True):
    informers: ViewSource
    leadership: Leadership
    writer: StatusWriter
    events: EventSink
    state: ManagerState
    log: ChangeLog
    controllers: tuple[Controller, ...] = CONTROLLERS


class ManagerLoop:
    """Guards the number of rounds."""

    def __init__(self, needs: ManagerDependencies) -> None:
        self._needs = needs
        self._round = 0

    def run_round(self, _woken: Woken) -> float:
        self.once(monotonic_now(), dt.datetime.now(dt.UTC))
        return self.pause(monotonic_now())

    def once(self, at: Micros, now: dt.datetime) -> None:
        """One round. `at` is by the monotonic clock, `now` is the time of day."""
        needs = self._needs
        self._round += 1
        needs.log.round = self._round
        view = needs.informers.look()
        leads = needs.leadership.leads()
        problems = {
            **view.problems(),
            "lease": needs.leadership.problem(),
            "events": needs.events.problem(),
        }
        if leads:
            self._reconcile(view, at, format_time(now.timestamp()))
        for about, text in problems.items():
            needs.log.state(about, text, at)
        leader = needs.leadership.leader()
        needs.log.state("leader", f"{leader or 'no replica'} leads", at)
        needs.state.end_round(
            RoundSummary(
                ended=at,
                leads=leads,
                leader=leader,
                reporting=sum(each.report is not None for each in view.nodes.items.values()),
                kinds=summarize_kinds(view),
                unsynced=view.unsynced(view.by_kind()),
                problems=tuple(f"{about}: {text}" for about, text in problems.items() if text),
            )
        )

    def pause(self, at: Micros) -> float:
        """Seconds until the next round, if nothing changes before."""
        due = self._needs.writer.next_due()
        if due is None:
            return LONGEST_PAUSE
        return min(max((due - at) / 1_000_000, SETTLE), LONGEST_PAUSE)

    def _reconcile(self, view: ClusterView, at: Micros, now: str) -> None:
        controllers = self._needs.controllers
        ready = [each for each in controllers if not view.unsynced(each.watches)]
        desired = [status for each in ready for status in each.reconcile(view, now)]
        self._write(desired, at)
        if len(ready) == len(controllers):
            self._needs.writer.forget_all_but({each.uid for each in desired})

    def _write(self, desired: Iterable[DesiredStatus], at: Micros) -> None:
        """Until the leadership or the API server is lost."""
        for each in desired:
            if each.is_current:
                self._needs.writer.settle(each.uid)
            elif not self._needs.leadership.leads():
                return
            elif attempt := self._needs.writer.write(each, at):
                self._record(attempt, at)
                if not attempt.answered:
                    return

    def _record(self, attempt: StatusWriteAttempt, at: Micros) -> None:
        """A count and a log entry; and, once the status was written, the event."""
        needs, desired, result = self._needs, attempt.desired, attempt.result
        needs.state.count_write(desired.resource.kind, result.value)
        if result is Result.APPLIED or attempt.failures == 1:
            needs.log.write(
                JournalEntry(
                    self._round,
                    at,
                    f"status of {desired}",
                    after=desired.outcome,
                    because=desired.because,
                    result=f"{result.value}: {attempt.detail}" if attempt.detail else result.value,
                )
            )
        if result is Result.APPLIED and desired.event is not None:
            needs.events.send(desired.event)
            needs.state.count_event()


def summarize_kinds(view: ClusterView) -> tuple[KindSummary, ...]:
    invalid = {NODES: len(view.nodes.unreadable)}
    for resource, found in view.policies.items():
        statuses = (each.status for each in found.items.values())
        invalid[resource] = sum(map(policy_status.is_invalid, statuses))
    return tuple(
        KindSummary(
            resource.kind,
            len(found.items),
            invalid[resource],
            found.heard_at,
            found.problem,
            found.synced,
        )
        for resource, found in view.by_kind().items()
    )


def respond(state: ManagerState, request: Request, at: Micros) -> Response:
    return respond_with(
        request,
        lambda: _health(state.health.why_unhealthy(at), state),
        lambda: _health(why_not_ready(state), state),
        lambda accept: _render_metrics(state, at, accept),
    )


def _health(why: str, state: ManagerState) -> ReplicaHealth:
    last = state.last_round
    if last is None:
        return ReplicaHealth(not why, why)
    return ReplicaHealth(not why, why, last.leads, last.leader, problems=last.problems)


def _render_metrics(state: ManagerState, at: Micros, accept: str) -> tuple[str, bytes]:
    from slackwater.record.exposition import build_families, render_families

    return render_families(build_families(METRICS, samples(state, at)), accept)


def run_manager(
    access: Access,
    candidate: Candidate,
    address: ListenAddress | None,
    pipe: WakePipe,
    write: EntrySink,
) -> None:
    """Until `pipe` is asked to stop. Raises CannotListenError."""
    state = ManagerState(monotonic_now())

    def answer(request: Request) -> Response:
        return respond(state, request, monotonic_now())

    with (
        bound_endpoint(address, answer, write) as serve,
        building_loop(access, candidate, state, pipe, write) as loop,
    ):
        serve()
        run_loop(loop.run_round, pipe.wait, settle=SETTLE)


@contextlib.contextmanager
def building_loop(
    access: Access, candidate: Candidate, state: ManagerState, pipe: WakePipe, write: EntrySink
) -> Iterator[ManagerLoop]:
    """All threads run inside the block, and have ended after it."""
    client = Client(access, _USER_AGENT)
    jitter = random.Random()  # noqa: S311 - spreads retries, keeps no secret
    informers = Informers(client, clock=monotonic_now, changed=pipe.wake, jitter=jitter)
    recorder = EventRecorder(client, FIELD_MANAGER, candidate.identity)
    writer = StatusWriter(apply_with(client))
    with contextlib.ExitStack() as ending:
        ending.callback(client.close)
        with state.health.starting_threads():
            for part in (informers, recorder):
                part.start()
                ending.callback(part.stop)
            election = ending.enter_context(taking_part(access, candidate, _USER_AGENT, pipe.wake))
        ending.callback(state.health.forget_threads)
        yield ManagerLoop(
            ManagerDependencies(informers, election, writer, recorder, state, ChangeLog(write))
        )
