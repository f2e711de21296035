"""A built agent from its start to its end: its rounds, its endpoint, its last words.

Owns the order in which its parts begin and end. What it is built from is cli.agent's.
"""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from slackwater.cli.json_lines import Lines
from slackwater.cli.output import Failed, WrongSettings
from slackwater.record.journal import Entry

if TYPE_CHECKING:
    from slackwater.agent.cluster_side import ClusterSide
    from slackwater.agent.voice import Tell
    from slackwater.agent.wiring import Built, Job, Place
    from slackwater.runtime.listen_address import ListenAddress

#: A rate needs two readings.
_LOOKS = 2
#: Seconds for a reader of stdout to take what is left at the end.
_LAST_WORDS = 2.0
#: Seconds that a single decision waits for each kind of object from a cluster.
_PATIENCE = 10.0
#: By this round a cluster's objects were listed, which takes more memory than having them.
_SETTLED = 10


class Run(msgspec.Struct, frozen=True):
    """Where the agent is asked, whether it decides once only, and what it leaves behind."""

    address: "ListenAddress | None"
    once: bool
    on_exit: str


def run(place: "Place", job: "Job", how: Run) -> int:
    """The whole life of an agent; its exit code."""
    from slackwater.agent.spare_memory import share_one_arena
    from slackwater.agent.wiring import build_agent, now

    share_one_arena()
    lines = Lines(sys.stdout.fileno(), now)
    try:
        with one_sentence():
            built = build_agent(place, job, os.environ, lines.tell)
        built.waiter.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with (
            started(built),
            in_touch(built.cluster, once=how.once, dry_run=job.dry_run),
            listening(built, how.address, "" if job.dry_run else place.state, lines.tell),
        ):
            left = go_round(built, range(_LOOKS) if how.once else itertools.count(), how.on_exit)
    finally:
        lines.close(_LAST_WORDS)
    return 1 if left or (how.once and failed(built)) else 0


def failed(built: "Built") -> bool:
    """Whether something that was to be done in the last round could not be, or there was none."""
    from slackwater.model.plan import Result

    latest = built.board.journal.latest
    done = latest.outcomes if latest else ()
    unseen = built.cluster is not None and latest is None
    return unseen or any(each.result in (Result.REFUSED, Result.UNSUPPORTED) for each in done)


@contextlib.contextmanager
def started(built: "Built") -> Iterator[None]:
    """With a cluster objects may come later; a folder is there, or is wrong."""
    from slackwater.agent.wiring import now

    begin = built.agent.start if built.cluster is None else built.agent.start_waiting
    try:
        problems = begin(now())
        if problems:
            raise WrongSettings("; ".join(problems))
        yield
    finally:
        built.agent.close()


@contextlib.contextmanager
def in_touch(cluster: "ClusterSide | None", *, once: bool, dry_run: bool) -> Iterator[None]:
    """Informers and writer run while the agent does. One decision waits for what it needs."""
    if cluster is None:
        yield
        return
    cluster.listen()
    try:
        if once:
            cluster.objects.wait(_PATIENCE)
        if not dry_run:
            cluster.speak()
        yield
    finally:
        cluster.stop()


@contextlib.contextmanager
def listening(
    built: "Built", address: "ListenAddress | None", state: str, tell: "Tell"
) -> Iterator[None]:
    """Without a state folder, in a dry run, nothing is noted there."""
    from slackwater.agent.endpoint_file import remove_endpoint_file
    from slackwater.agent.wiring import now

    def say(sentence: str) -> None:
        tell(Entry(0, now(), "endpoint", because=sentence))

    if state:
        remove_endpoint_file(state)  # the ledger is ours, so this is a dead agent's
    if address is None:
        yield
        return
    from slackwater.agent.endpoint import Endpoint
    from slackwater.runtime.http_server import CannotListenError

    try:
        endpoint = Endpoint(address, state, built.board, now, say)
    except CannotListenError as error:
        raise Failed(str(error)) from None
    say(f"listening on http://{endpoint.address}")
    try:
        yield
    finally:
        endpoint.close()


def go_round(built: "Built", rounds: Iterable[int], on_exit: str) -> int:
    """Round after round, until a signal asks for an end; how many knobs could then not be put
    back."""
    from slackwater.agent.spare_memory import give_back_spare_memory
    from slackwater.agent.waiting import Woken
    from slackwater.agent.wiring import now

    give_back_spare_memory()
    left = 0
    try:
        for number in rounds:
            woken = built.waiter.wait(built.agent.pause(now()))
            if woken is Woken.STOP:
                break
            built.agent.once(now(), early=woken is not Woken.DUE)
            if built.cluster is not None:
                built.cluster.report(built.board, now())
                if number == _SETTLED:
                    give_back_spare_memory()
    finally:
        if on_exit == "release":
            left = built.agent.release(now(), "released at exit").left
            if built.cluster is not None:
                built.cluster.tell_release(built.board, now(), left)
    return left


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """What is missing here exits with 1, what is set wrongly with 2."""
    from slackwater.agent.wiring import CannotStart
    from slackwater.observation.detection import EnvironmentValueError

    try:
        yield
    except EnvironmentValueError as error:
        raise WrongSettings(str(error)) from None
    except CannotStart as error:
        raise Failed(str(error)) from None
