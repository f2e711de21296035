"""The manager put together: the watches, the lease, the events, and the loop over them.

Owns the order in which they start and end: the lease is given back once nothing is written any
more, so that the next leader finds the objects at rest.
"""

import contextlib
import datetime as dt
import random
import time
from collections.abc import Callable, Iterator

import msgspec

from slackwater import __version__
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.events import EventRecorder
from slackwater.kube.lease import Election
from slackwater.manager.bell import Bell
from slackwater.manager.program import SETTLE, Loop, Parts, Tell
from slackwater.manager.standing import Notice
from slackwater.manager.status_writer import FIELD_MANAGER, StatusWriter, applier
from slackwater.manager.watches import Watches
from slackwater.model.units import Micros


class Job(msgspec.Struct, frozen=True):
    """Which lease decides who leads, and as whom we ask for it."""

    namespace: str
    lease: str
    identity: str


class Built(msgspec.Struct, frozen=True):
    loop: Loop
    notice: Notice


def now() -> Micros:
    """The clock that only goes forward."""
    return Micros(time.monotonic_ns() // 1000)


@contextlib.contextmanager
def running(access: Access, job: Job, bell: Bell, tell: Tell) -> Iterator[Built]:
    """All threads run inside, and have ended outside."""
    client = Client(access, f"{FIELD_MANAGER}/{__version__}")
    jitter = random.Random()  # noqa: S311 - spreads retries, keeps no secret
    watches = Watches(client, clock=now, changed=bell.ring, jitter=jitter)
    election = Election(
        client, job.namespace, job.lease, job.identity, jitter=jitter, changed=bell.ring
    )
    sender = EventRecorder(client, FIELD_MANAGER, job.identity)
    notice = Notice(now())
    writer = StatusWriter(applier(client))
    with contextlib.ExitStack() as ending:
        for part in (watches, sender, election):
            part.start()
            ending.callback(part.stop)
        yield Built(Loop(Parts(watches, election, writer, sender, notice, tell)), notice)


def go_round(loop: Loop, bell: Bell, stopped: Callable[[], bool]) -> None:
    """Round after round, when something changed or a pause is over, until it is to stop."""
    while not stopped():
        began = now()
        loop.once(began, dt.datetime.now(dt.UTC))
        bell.wait(loop.pause(now()))
        # What rings meanwhile is in the next round, which has not looked yet.
        while not stopped() and (left := SETTLE - (now() - began) / 1_000_000) > 0:
            bell.wait(left)
