"""The rebalancer put together: readers, writer, events, and one round or a loop over them.

Owns the order in which they start and end: the lease is given back once no pod goes any more.
"""

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator

import msgspec

from slackwater import __version__
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.events import EventRateLimit, EventRecorder, KubeEvent
from slackwater.kube.lease import Election
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import RoundAssessment, assess_all
from slackwater.rebalancer.loop import Alone, Loop, LoopParts, Seat, go_round
from slackwater.rebalancer.metrics import RoundMetrics, expose
from slackwater.rebalancer.push import push
from slackwater.rebalancer.rotation import PodWriter
from slackwater.rebalancer.round_result import RoundResult
from slackwater.rebalancer.round_sources import open_sources, plainly, until_asked_to_end
from slackwater.rebalancer.run import RoundDependencies, Tell, run_once
from slackwater.rebalancer.standing import Standing, respond
from slackwater.rebalancer.stopping import ENDING, Stop
from slackwater.record.journal import Entry
from slackwater.runtime.http_exchange import Request, Response
from slackwater.runtime.listen_address import ListenAddress
from slackwater.settings.rebalancer import RunSettings

NAME = "slackwater-rebalancer"
#: A rotation tells of each pod; four of each of 50 workloads at once, then one each second.
_ALLOWANCE = EventRateLimit(burst=250, every=1.0)
#: Seconds for the last events to be sent.
_LAST_WORDS = 10.0
#: Of a request about the lease, in seconds: several fit into the lease's deadline.
_IMPATIENT = 4.0

#: Hears one sentence about what went wrong beside the work.
Warn = Callable[[str], None]


class Job(msgspec.Struct, frozen=True):
    """Which lease decides who leads, and as whom we ask for it."""

    namespace: str
    identity: str
    lease: str = NAME


def now() -> Micros:
    """The clock that only goes forward."""
    return Micros(time.monotonic_ns() // 1000)


def plan(access: Access, settings: RunSettings) -> RoundAssessment:
    """What `run` would decide now. Changes nothing."""
    client = _client(access)
    try:
        return assess_all(open_sources(client, settings, _never, plainly), settings, time.time())
    finally:
        client.close()


def run(access: Access, settings: RunSettings, stop: Stop, tell: Tell, warn: Warn) -> RoundResult:
    """One round. Its metrics are pushed where the settings say so."""
    client = _client(access)
    tally = RoundMetrics()
    try:
        with _telling(client, settings, warn) as send:
            halted = _halted_by(stop)
            result = run_once(_parts(client, settings, halted, stop, tell, send), settings)
    finally:
        client.close()
    tally.add(result)
    if settings.push and (problem := push(settings.push, *expose(tally))):
        warn(problem)
    return result


def loop(
    access: Access,
    settings_of: Callable[[], RunSettings],
    job: Job,
    address: ListenAddress | None,
    stop: Stop,
    tell: Tell,
) -> None:
    """Until `stop` is asked for. Raises CannotListenError."""
    client, tally = _client(access), RoundMetrics()
    standing = Standing(time.monotonic)

    def warn(sentence: str) -> None:
        tell(Entry(0, now(), "events", because=sentence))

    with contextlib.ExitStack() as ending:
        ending.callback(client.close)
        first = settings_of()
        listening(address, standing, tally, tell, ending)
        send = ending.enter_context(_telling(client, first, warn, job.identity))
        seat = _seat(access, job, stop, first, ending)
        halted = _halted_by(stop, seat, standing)

        @contextlib.contextmanager
        def parts_of(settings: RunSettings) -> Iterator[RoundDependencies]:
            yield _parts(client, settings, halted, stop, tell, send)

        parts = LoopParts(settings_of, parts_of, seat, standing, tally, tell, time.monotonic)
        go_round(Loop(parts), stop.wait)


def listening(
    address: ListenAddress | None,
    standing: Standing,
    tally: RoundMetrics,
    tell: Tell,
    ending: contextlib.ExitStack,
) -> None:
    """/metrics, /healthz and /readyz, until the end."""
    if address is None:
        return
    from slackwater.runtime.http_server import serving

    def answer(request: Request) -> Response:
        return respond(standing, tally, request)

    def report(sentence: str) -> None:
        tell(Entry(0, now(), "endpoint", because=sentence))

    ending.enter_context(serving(address, answer, report))


def _client(access: Access) -> Client:
    return Client(access, f"{NAME}/{__version__}")


def _never() -> str:
    return ""


def _halted_by(
    stop: Stop, seat: Seat | None = None, standing: Standing | None = None
) -> Callable[[], str]:
    """Why we are to stop; to ask is also a sign of life."""

    def halted() -> str:
        if standing is not None:
            standing.beat()
        if stop.is_asked():
            return ENDING
        return "another replica leads now" if seat is not None and not seat.leads() else ""

    return halted


def _seat(
    access: Access, job: Job, stop: Stop, settings: RunSettings, ending: contextlib.ExitStack
) -> Seat:
    if settings.dry_run:
        return Alone()
    client = Client(access, f"{NAME}/{__version__}", timeout=_IMPATIENT)
    jitter = random.Random()  # noqa: S311 - spreads retries, keeps no secret
    election = Election(
        client, job.namespace, job.lease, job.identity, jitter=jitter, changed=stop.wake
    )
    election.start()
    ending.callback(election.stop)
    return election


@contextlib.contextmanager
def _telling(
    client: Client, settings: RunSettings, warn: Warn, instance: str = ""
) -> Iterator[Callable[[KubeEvent], None]]:
    """Events, but in a dry run, which changes nothing."""
    if settings.dry_run:
        yield lambda _: None
        return
    sender = EventRecorder(client, NAME, instance or os.uname().nodename, allowance=_ALLOWANCE)
    sender.start()
    try:
        yield sender.send
    finally:
        sender.stop(_LAST_WORDS)
        if problem := sender.problem():
            warn(f"events could not be sent: {problem}")


def _parts(
    client: Client,
    settings: RunSettings,
    halted: Callable[[], str],
    stop: Stop,
    tell: Tell,
    send: Callable[[KubeEvent], None],
) -> RoundDependencies:
    writer = None if settings.dry_run else PodWriter(client, settings.removal, settings.grace)
    sources = open_sources(client, settings, halted, until_asked_to_end(stop))
    return RoundDependencies(
        sources=sources,
        writer=writer,
        look=lambda each: sources.reader().read(each),
        clock=time.monotonic,
        wall=time.time,
        wait=stop.wait,
        tell=tell,
        send=send,
    )
