"""The manager as a program: a loop over controllers, of which only the leader's writes.

Owns the order of one round, the pause between two, and the order in which the parts start and
end: the Lease is given back once nothing is written any more, so that the next leader finds the
objects at rest.
"""

import contextlib
import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any, Protocol

import msgspec

from slackwater import __version__
from slackwater.contract.koordinator.node_ratios import CPU, raw_allocatable, standing_ratio
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RATIO_ANNOTATION,
)
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.kube.access import Access
from slackwater.kube.api_time import format_time
from slackwater.kube.client import Client
from slackwater.kube.events import EventRecorder, KubeEvent
from slackwater.manager.cluster_view import (
    NODE_KIND,
    POLICY_KINDS,
    PREDICTION_KIND,
    ClusterView,
    WatchedKind,
    slo_config_kind,
    watched_kinds,
)
from slackwater.manager.controllers import (
    node_amplification,
    node_predictions,
    normalization,
    policy_status,
    prediction_status,
)
from slackwater.manager.controllers.controller import (
    Controller,
    DesiredWrite,
    Notice,
    Reconciled,
)
from slackwater.manager.informers import Informers
from slackwater.manager.node_template import default_template
from slackwater.manager.object_writer import (
    FIELD_MANAGER,
    ObjectWriter,
    WriteAttempt,
    apply_with,
)
from slackwater.manager.predictor.predictor import Predictor
from slackwater.manager.slo_config_memory import SloConfigMemory
from slackwater.manager.state import (
    METRICS,
    KindSummary,
    ManagerState,
    NormalizedNode,
    PredictionSummary,
    QuerySummary,
    RoundSummary,
    samples,
    why_not_ready,
)
from slackwater.manager.webhook.node_webhook import serving_webhook
from slackwater.model.gap import Gap
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
from slackwater.settings.manager import ManagerSettings
from slackwater.status.api_objects import ClusterNode

#: Seconds between the beginnings of two rounds: a burst of changes is one round.
SETTLE = 1.0
#: Longest pause between rounds, in seconds: a change of a Node alone does not start one. A round of
#: 5,000 nodes and 20 policies takes 0.2 s.
LONGEST_PAUSE = 10.0
#: Of one round: a new template is thousands of writes, and others must have their turn.
MOST_WRITES = 500
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
    writer: ObjectWriter
    events: EventSink
    state: ManagerState
    log: ChangeLog
    controllers: tuple[Controller, ...]
    slo_config: SloConfigMemory
    predictor: Predictor | None = None


class ManagerLoop:
    """Guards the number of rounds, and whether the last one left writes to the next."""

    def __init__(self, needs: ManagerDependencies) -> None:
        self._needs = needs
        self._round = 0
        self._unfinished = False

    def run_round(self, _woken: Woken) -> float:
        self.once(monotonic_now(), dt.datetime.now(dt.UTC))
        return self.pause(monotonic_now())

    def once(self, at: Micros, now: dt.datetime) -> None:
        """One round. `at` is by the monotonic clock, `now` is the time of day."""
        needs = self._needs
        self._round += 1
        needs.log.round = self._round
        leads = needs.leadership.leads()
        view = self._look(at, leads=leads)
        problems = {
            **view.problems(),
            "lease": needs.leadership.problem(),
            "events": needs.events.problem(),
        }
        notices = self._reconcile(view, at, format_time(now.timestamp())) if leads else {}
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
                unsynced=view.unsynced(view.views),
                problems=tuple(f"{about}: {text}" for about, text in problems.items() if text),
                predictions=summarize_predictions(view),
                unpredicted=sum(
                    prediction_status.is_unready(each)
                    for each in view.of(PREDICTION_KIND).items.values()
                ),
                template_invalid=isinstance(
                    node_predictions.choose_template(view, None).template, Gap
                ),
                queries=self._count_queries(),
                slo_config_invalid=view.slo_config.is_invalid,
                normalized=summarize_normalization(view),
                notices=notices,
            )
        )

    def _count_queries(self) -> QuerySummary:
        predictor = self._needs.predictor
        if predictor is None:
            return QuerySummary()
        counts = predictor.counts
        return QuerySummary(counts.answered, counts.failed, counts.samples)

    def _look(self, at: Micros, *, leads: bool) -> ClusterView:
        """The leader's predictor gets what there is to predict; a follower's has nothing to do."""
        view, predictor = self._needs.informers.look(), self._needs.predictor
        memory = self._needs.slo_config
        state = memory.look(view.of(slo_config_kind(memory.name)), at)
        view = msgspec.structs.replace(view, slo_config=state)
        if predictor is None:
            return view
        predictor.follow(view.of(PREDICTION_KIND).items.values() if leads else ())
        return msgspec.structs.replace(view, outcomes=predictor.outcomes())

    def pause(self, at: Micros) -> float:
        """Seconds until the next round, if nothing changes before."""
        if self._unfinished:
            return SETTLE
        due = self._needs.writer.next_due()
        if due is None:
            return LONGEST_PAUSE
        return min(max((due - at) / 1_000_000, SETTLE), LONGEST_PAUSE)

    def _reconcile(self, view: ClusterView, at: Micros, now: str) -> Mapping[str, int]:
        """How much each controller has to tell."""
        controllers = self._needs.controllers
        ready = [each for each in controllers if not view.unsynced(each.watches)]
        found = [
            each.reconcile(view, now) if _is_possible(each, view) else Reconciled()
            for each in ready
        ]
        self._tell([notice for each in found for notice in each.notices], at)
        desired = [write for each in found for write in each.writes]
        self._write(desired, at)
        if len(ready) == len(controllers):
            self._needs.writer.forget_all_but({each.key for each in desired})
        return {each.name: len(one.notices) for each, one in zip(ready, found, strict=True)}

    def _tell(self, notices: Iterable[Notice], at: Micros) -> None:
        log = self._needs.log
        told = {each.about: each.text for each in notices}
        for each in notices:
            if each.event is not None and log.last_state(each.about) != each.text:
                self._send(each.event)
        log.states(told, at)

    def _write(self, desired: Iterable[DesiredWrite], at: Micros) -> None:
        """Until the leadership or the API server is lost."""
        written, self._unfinished = 0, False
        for each in desired:
            if each.is_current:
                self._needs.writer.settle(each.key)
            elif not self._needs.leadership.leads():
                return
            elif written >= MOST_WRITES:
                self._unfinished = True
                return
            elif attempt := self._needs.writer.write(each, at):
                written += 1
                self._record(each, attempt, at)
                if not attempt.answered:
                    return

    def _record(self, desired: DesiredWrite, attempt: WriteAttempt, at: Micros) -> None:
        """A count and a log entry; and, once it was written, the event."""
        needs, result = self._needs, attempt.result
        needs.state.count_write(desired.verb, desired.resource.kind, result.value)
        if result is Result.APPLIED or attempt.failures == 1:
            needs.log.write(
                JournalEntry(
                    self._round,
                    at,
                    str(desired),
                    after=desired.outcome,
                    because=desired.because,
                    result=f"{result.value}: {attempt.detail}" if attempt.detail else result.value,
                )
            )
        if result is Result.APPLIED and desired.event is not None:
            self._send(desired.event)

    def _send(self, event: KubeEvent) -> None:
        self._needs.events.send(event)
        self._needs.state.count_event()


def _is_possible(controller: Controller, view: ClusterView) -> bool:
    return not any(view.of(kind).unknown_kind for kind in controller.needs)


def summarize_kinds(view: ClusterView) -> tuple[KindSummary, ...]:
    invalid: dict[WatchedKind[Any], int] = {NODE_KIND: len(view.nodes.unreadable)}
    for kind in POLICY_KINDS.values():
        statuses = (each.status for each in view.of(kind).items.values())
        invalid[kind] = sum(map(policy_status.is_invalid, statuses))
    return tuple(
        KindSummary(
            str(kind),
            len(found.items),
            invalid.get(kind, 0),
            found.heard_at,
            found.problem,
            found.synced,
        )
        for kind, found in view.views.items()
    )


def summarize_normalization(view: ClusterView) -> tuple[NormalizedNode, ...]:
    """What stands on the Nodes, whoever wrote it."""
    return tuple(
        _normalized(node)
        for node in view.nodes.items.values()
        if RATIO_ANNOTATION in node.annotations or AMPLIFICATION_ANNOTATION in node.annotations
    )


def _normalized(node: ClusterNode) -> NormalizedNode:
    facts = node.facts(Gap(""))
    raw = raw_allocatable(facts)
    return NormalizedNode(
        node.name,
        standing_ratio(facts),
        None if isinstance(raw, Gap) else raw.get(CPU),
        node.allocatable,
    )


def summarize_predictions(view: ClusterView) -> tuple[PredictionSummary, ...]:
    """By resource and estimator."""
    counts: Counter[tuple[str, str]] = Counter()
    errors: dict[tuple[str, str], list[float]] = {}
    for found in view.of(PREDICTION_KIND).items.values():
        for metric in found.status.metrics:
            if metric.estimator:
                key = metric.resource_identifier, metric.estimator
                counts[key] += 1
                if metric.last_day_error:
                    errors.setdefault(key, []).append(float(metric.last_day_error))
    return tuple(
        PredictionSummary(*key, count, fmean(errors[key]) if key in errors else None)
        for key, count in sorted(counts.items())
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

    families = build_families(METRICS, samples(state, at))
    return render_families((*families, *state.webhook.families()), accept)


def build_controllers(settings: ManagerSettings, namespace: str) -> tuple[Controller, ...]:
    """`namespace` is our own, for the predictions of our own template."""
    default = None
    if settings.default_template and settings.prometheus is not None:
        default = node_predictions.DefaultTemplate(default_template(), namespace)
    return (
        policy_status.CONTROLLER,
        node_predictions.controller(default),
        prediction_status.CONTROLLER,
        normalization.controller(settings.slo_config),
        *((node_amplification.CONTROLLER,) if settings.webhook else ()),
    )


def build_predictor(
    settings: ManagerSettings, pipe: WakePipe, jitter: random.Random
) -> Predictor | None:
    if settings.prometheus is None:
        return None
    return Predictor(
        PrometheusClient(settings.prometheus),
        clock=time.time,
        changed=pipe.wake,
        jitter=jitter,
        matchers=settings.prometheus.labels.matchers,
    )


def run_manager(
    access: Access,
    candidate: Candidate,
    address: ListenAddress | None,
    pipe: WakePipe,
    write: EntrySink,
    settings: ManagerSettings = ManagerSettings(),  # noqa: B008
    webhook: ListenAddress | None = None,
) -> None:
    """Until `pipe` is asked to stop. `webhook` is where the webhook is served, where that is
    switched on. Raises CannotListenError."""
    state = ManagerState(monotonic_now())

    def answer(request: Request) -> Response:
        return respond(state, request, monotonic_now())

    with (
        bound_endpoint(address, answer, write) as serve,
        building_loop(access, candidate, state, pipe, write, settings, webhook) as loop,
    ):
        serve()
        run_loop(loop.run_round, pipe.wait, settle=SETTLE)


@contextlib.contextmanager
def building_loop(
    access: Access,
    candidate: Candidate,
    state: ManagerState,
    pipe: WakePipe,
    write: EntrySink,
    settings: ManagerSettings,
    webhook: ListenAddress | None = None,
) -> Iterator[ManagerLoop]:
    """All threads run inside the block, and have ended after it."""
    client = Client(access, _USER_AGENT)
    jitter = random.Random()  # noqa: S311 - spreads retries, keeps no secret
    kinds = watched_kinds(settings.slo_config)
    informers = Informers(client, kinds, clock=monotonic_now, changed=pipe.wake, jitter=jitter)
    recorder = EventRecorder(client, FIELD_MANAGER, candidate.identity)
    writer = ObjectWriter(apply_with(client, "status" if settings.webhook else ""))
    predictor = build_predictor(settings, pipe, jitter)
    with contextlib.ExitStack() as ending:
        ending.callback(client.close)
        with state.health.starting_threads():
            for part in (informers, recorder, *((predictor,) if predictor else ())):
                part.start()
                ending.callback(part.stop)
            election = ending.enter_context(taking_part(access, candidate, _USER_AGENT, pipe.wake))
            ending.enter_context(
                serving_webhook(
                    webhook,
                    Client(access, _USER_AGENT),
                    candidate.namespace,
                    election.leads,
                    state.webhook,
                    write,
                )
            )
        ending.callback(state.health.forget_threads)
        controllers = build_controllers(settings, candidate.namespace)
        yield ManagerLoop(
            ManagerDependencies(
                informers,
                election,
                writer,
                recorder,
                state,
                ChangeLog(write),
                controllers,
                SloConfigMemory(settings.slo_config),
                predictor,
            )
        )
