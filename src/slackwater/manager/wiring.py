"""The manager put together: informers, election, events, and the loop over them.

Owns the order in which they start and end: the Lease is given back once nothing is written any
more, so that the next leader finds the objects at rest.
"""

import contextlib
import datetime as dt
import random
from collections.abc import Iterator

import msgspec

from slackwater import __version__
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.kube.events import EventRecorder
from slackwater.manager.program import SETTLE, Loop, Parts
from slackwater.manager.standing import Notice
from slackwater.manager.status_writer import FIELD_MANAGER, StatusWriter, applier
from slackwater.manager.watches import Watches
from slackwater.runtime.change_log import ChangeLog, EntrySink
from slackwater.runtime.clock import monotonic_now
from slackwater.runtime.leadership import Candidate, taking_part
from slackwater.runtime.loop import run_loop
from slackwater.runtime.wakeup import WakePipe, Woken

_USER_AGENT = f"{FIELD_MANAGER}/{__version__}"


class Built(msgspec.Struct, frozen=True):
    loop: Loop
    notice: Notice


@contextlib.contextmanager
def running(
    access: Access, candidate: Candidate, pipe: WakePipe, write: EntrySink
) -> Iterator[Built]:
    """All threads run inside, and have ended outside."""
    client = Client(access, _USER_AGENT)
    jitter = random.Random()  # noqa: S311 - spreads retries, keeps no secret
    watches = Watches(client, clock=monotonic_now, changed=pipe.wake, jitter=jitter)
    recorder = EventRecorder(client, FIELD_MANAGER, candidate.identity)
    notice = Notice(monotonic_now())
    writer = StatusWriter(applier(client))
    with contextlib.ExitStack() as ending:
        ending.callback(client.close)
        with notice.health.starting_threads():
            for part in (watches, recorder):
                part.start()
                ending.callback(part.stop)
            election = ending.enter_context(taking_part(access, candidate, _USER_AGENT, pipe.wake))
        ending.callback(notice.health.forget_threads)
        yield Built(
            Loop(Parts(watches, election, writer, recorder, notice, ChangeLog(write))), notice
        )


def run_rounds(loop: Loop, pipe: WakePipe) -> None:
    """When something changed or a pause is over, until it is to stop."""

    def run_round(_woken: Woken) -> float:
        loop.once(monotonic_now(), dt.datetime.now(dt.UTC))
        return loop.pause(monotonic_now())

    run_loop(run_round, pipe.wait, settle=SETTLE)
