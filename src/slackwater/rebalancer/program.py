"""The rebalancer as a program: one round, or a loop of rounds in the one replica that leads.

Owns the rhythm, and the order in which the parts start and end: the Lease is given back once no
more pod is evicted. Followers do nothing. Settings are read anew before each round. A round that
cannot reach the API server ends with that reason, and the next one comes in its time.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import msgspec

from slackwater import __version__
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.events import EventRateLimit, EventRecorder, KubeEvent
from slackwater.kube.server_clock import ServerClock
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import KUBERNETES, RoundAssessment, assess_all
from slackwater.rebalancer.metrics import RoundMetrics, expose, push
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.results import RoundResult
from slackwater.rebalancer.rotation import PodWriter
from slackwater.rebalancer.round_sources import ENDING, RoundSources
from slackwater.rebalancer.run import RoundDependencies, RoundMemory, run_once
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import ChangeLog, EntrySink
from slackwater.runtime.health import HealthState, ReplicaHealth
from slackwater.runtime.http_exchange import ListenAddress, Request, Response
from slackwater.runtime.leadership import Candidate, Leadership, NoElection, taking_part
from slackwater.runtime.loop import monotonic_now, run_loop
from slackwater.runtime.status_endpoint import bound_endpoint, respond
from slackwater.runtime.wakeup import InterruptibleWakePipe, Woken
from slackwater.settings.rebalancer import RunSettings

NAME = "slackwater-rebalancer"
_USER_AGENT = f"{NAME}/{__version__}"
_MICROS = 1_000_000
#: One question may take minutes: a Prometheus that hangs is asked three times for 30 s, and there
#: are several in a row. Between any two questions the loop shows a sign of life.
STALLED_AFTER = Micros(900 * _MICROS)
#: Seconds between two looks at the lease, at most.
_FOLLOWING = 60.0
#: And while no leader is known: the election tries every two seconds, and does not wake the loop
#: when that fails.
_SEARCHING = 2.0
#: A rotation sends an event for each pod: four of each of 50 workloads at once, then one a second.
_EVENT_RATE_LIMIT = EventRateLimit(burst=250, every=1.0)
#: Seconds for the last events to be sent.
_LAST_EVENTS = 10.0

#: Takes one sentence about what went wrong beside the work.
Warn = Callable[[str], None]


class ReplicaState:
    """Guards what the loop shows to the HTTP server's threads. A follower is ready: it can take
    over."""

    def __init__(self, clock: Callable[[], Micros]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known = ReplicaHealth(ok=True)
        self.health = HealthState(clock(), STALLED_AFTER)

    def beat(self) -> None:
        self.health.beat(self._clock())

    def show_leader(self, leads: bool, leader: str, problem: str) -> None:
        """From the loop: who leads as far as is known, and why the Lease cannot be read."""
        self.beat()
        with self._lock:
            self._known = ReplicaHealth(True, leads=leads, leader=leader, problem=problem)

    def check_alive(self) -> ReplicaHealth:
        why = self.health.why_unhealthy(self._clock())
        return msgspec.structs.replace(self._snapshot(), ok=not why, because=why)

    def check_ready(self) -> ReplicaHealth:
        known = self._snapshot()
        if known.leads or known.leader:
            return known
        why = known.problem or "no leader is known yet"
        return msgspec.structs.replace(known, ok=False, because=why)

    def _snapshot(self) -> ReplicaHealth:
        with self._lock:
            return self._known


class LoopDependencies(msgspec.Struct, frozen=True):
    """`dependencies_of` opens what a round with these settings needs. `clock` is in seconds."""

    settings_of: Callable[[], RunSettings]
    dependencies_of: Callable[[RunSettings], AbstractContextManager[RoundDependencies]]
    leadership: Leadership
    state: ReplicaState
    tally: RoundMetrics
    log: ChangeLog
    clock: Callable[[], float]


class RebalancerLoop:
    """Guards when the next round is due."""

    def __init__(self, needs: LoopDependencies) -> None:
        self._needs = needs
        self._memory = RoundMemory()
        self._due = 0.0
        self._leading = False

    def run_round(self, _woken: Woken) -> float:
        self.once()
        return self.pause()

    def once(self) -> RoundResult | None:
        """A round, if this replica leads and one is due."""
        needs = self._needs
        leads = self._check_leadership()
        if needs.leadership.problem():
            needs.tally.add_error(KUBERNETES)
        if leads and not self._leading:
            self._due = 0.0  # a new leader does not know when the last round was
        self._leading = leads
        if not leads or needs.clock() < self._due:
            return None
        began = needs.clock()
        settings = self._read_settings()
        with needs.dependencies_of(settings) as opened:
            result = run_once(opened, settings, self._memory)
        needs.tally.add(result)
        self._due = began + settings.interval / _MICROS
        self._check_leadership()
        return result

    def pause(self) -> float:
        """Seconds until there is something to do, unless woken before."""
        if not self._leading:
            return _FOLLOWING if self._needs.leadership.leader() else _SEARCHING
        return min(max(self._due - self._needs.clock(), 0.0), _FOLLOWING)

    def _read_settings(self) -> RunSettings:
        settings = self._needs.settings_of()
        if isinstance(self._needs.leadership, NoElection) and not settings.dry_run:
            self._log("settings", "the dry run goes on: it began without a Lease; restart to act")
            return msgspec.structs.replace(settings, dry_run=True)
        return settings

    def _check_leadership(self) -> bool:
        found = self._needs.leadership
        leads, leader, problem = found.leads(), found.leader(), found.problem()
        sentence = f"the Lease cannot be read or held: {problem}" if problem else ""
        self._needs.state.show_leader(leads, leader, sentence)
        if leader or self._needs.log.is_known("leader"):  # at the start it is only not known yet
            self._log("leader", f"{leader or 'no replica'} leads")
        self._log("lease", sentence, Reason.KUBERNETES_ERROR.value if problem else "")
        return leads

    def _log(self, about: str, text: str, result: str = "") -> None:
        self._needs.log.round = self._memory.rounds
        at = Micros(round(self._needs.clock() * _MICROS))
        self._needs.log.state(about, text, at, result)


def plan(access: Access, settings: RunSettings) -> RoundAssessment:
    """What `run` would decide now. Changes nothing."""
    client = Client(access, _USER_AGENT)
    try:
        sources = RoundSources(client, settings, _never, contextlib.nullcontext)
        return assess_all(sources, settings, ServerClock(client)())
    finally:
        client.close()


def run(
    access: Access,
    settings: RunSettings,
    pipe: InterruptibleWakePipe,
    write: EntrySink,
    warn: Warn,
) -> RoundResult:
    """One round. Its metrics are pushed if the settings say so."""
    client = Client(access, _USER_AGENT)
    tally = RoundMetrics()
    try:
        with _sending_events(client, settings, warn) as send:
            halted = _halted_by(pipe)
            result = run_once(_dependencies(client, settings, halted, pipe, write, send), settings)
    finally:
        client.close()
    tally.add(result)
    if settings.push and (problem := push(settings.push, *expose(tally))):
        warn(problem)
    return result


def loop(
    access: Access,
    settings_of: Callable[[], RunSettings],
    candidate: Candidate,
    address: ListenAddress | None,
    pipe: InterruptibleWakePipe,
    write: EntrySink,
) -> None:
    """Until `pipe` is asked to stop. Raises CannotListenError."""
    client, tally = Client(access, _USER_AGENT), RoundMetrics()
    state = ReplicaState(monotonic_now)

    def warn(sentence: str) -> None:
        write(JournalEntry(0, monotonic_now(), "events", because=sentence))

    def answer(request: Request) -> Response:
        return respond(request, state.check_alive, state.check_ready, partial(expose, tally))

    with contextlib.ExitStack() as ending:
        ending.callback(client.close)
        first = settings_of()
        serve = ending.enter_context(bound_endpoint(address, answer, write))
        with state.health.starting_threads():
            send = ending.enter_context(_sending_events(client, first, warn, candidate.identity))
            leadership = ending.enter_context(_electing(access, candidate, pipe, first))
        ending.callback(state.health.forget_threads)
        serve()
        halted = _halted_by(pipe, leadership, state)

        @contextlib.contextmanager
        def dependencies_of(settings: RunSettings) -> Iterator[RoundDependencies]:
            yield _dependencies(client, settings, halted, pipe, write, send)

        needs = LoopDependencies(
            settings_of, dependencies_of, leadership, state, tally, ChangeLog(write), time.monotonic
        )
        run_loop(RebalancerLoop(needs).run_round, pipe.wait)


def _never() -> str:
    return ""


def _halted_by(
    pipe: InterruptibleWakePipe,
    leadership: Leadership | None = None,
    state: ReplicaState | None = None,
) -> Callable[[], str]:
    """Why the round is to stop. That it asks is a sign of life, too."""

    def halted() -> str:
        if state is not None:
            state.beat()
        if pipe.is_stopping():
            return ENDING
        return "another replica leads now" if leadership and not leadership.leads() else ""

    return halted


@contextlib.contextmanager
def _electing(
    access: Access, candidate: Candidate, pipe: InterruptibleWakePipe, settings: RunSettings
) -> Iterator[Leadership]:
    if settings.dry_run:
        yield NoElection()
        return
    with taking_part(access, candidate, _USER_AGENT, pipe.wake) as election:
        yield election


@contextlib.contextmanager
def _sending_events(
    client: Client, settings: RunSettings, warn: Warn, instance: str = ""
) -> Iterator[Callable[[KubeEvent], None]]:
    """Except in a dry run, which changes nothing."""
    if settings.dry_run:
        yield lambda _: None
        return
    recorder = EventRecorder(
        client, NAME, instance or os.uname().nodename, rate_limit=_EVENT_RATE_LIMIT
    )
    recorder.start()
    try:
        yield recorder.send
    finally:
        recorder.stop(_LAST_EVENTS)
        if problem := recorder.problem():
            warn(f"events could not be sent: {problem}")


def _dependencies(
    client: Client,
    settings: RunSettings,
    halted: Callable[[], str],
    pipe: InterruptibleWakePipe,
    write: EntrySink,
    send: Callable[[KubeEvent], None],
) -> RoundDependencies:
    writer = None if settings.dry_run else PodWriter(client, settings.removal, settings.grace)
    return RoundDependencies(
        sources=RoundSources(client, settings, halted, pipe.interrupting),
        writer=writer,
        clock=time.monotonic,
        wall=ServerClock(client),
        wait=pipe.sleep,
        write=write,
        send_event=send,
    )
