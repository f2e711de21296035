"""`slackwater manager`: arguments into a program, entries into lines."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from slackwater.cli.cluster_options import (
    access_of,
    cluster_options,
    identity_option,
    object_name_of,
)
from slackwater.cli.json_lines import Lines
from slackwater.cli.listen import listen_address, listen_option
from slackwater.cli.output import Failed
from slackwater.record.journal import Entry

if TYPE_CHECKING:
    from slackwater.manager.program import Tell
    from slackwater.manager.standing import Notice
    from slackwater.runtime.listen_address import ListenAddress

LISTEN = "127.0.0.1:10481"
LEASE = "slackwater-manager"
#: Seconds for a reader of stdout to take what is left at the end.
_LAST_WORDS = 2.0


@click.command()
@listen_option("/metrics, /healthz and /readyz", f"Default: {LISTEN}.")
@click.option(
    "--lease-name",
    metavar="NAME",
    default=LEASE,
    show_default=True,
    callback=object_name_of,
    envvar="SLACKWATER_LEASE_NAME",
    show_envvar=True,
    help="The Lease, in --namespace, that decides which replica leads.",
)
@identity_option
@cluster_options
def manager(
    listen: str | None,
    lease_name: str,
    identity: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """The cluster manager: judges policy objects and says in their status what they mean.

    Of several replicas one leads and writes; the others watch, and one of them takes over. Prints
    one line of JSON for each effect, and for each thing that it cannot hear.

    \b
    Examples:
      slackwater manager                                  in a pod, with its service account
      slackwater manager --kubeconfig ~/.kube/config      from anywhere
      kubectl get nodeqos                                 what it says

    \b
    Exit codes: 0 ended as asked; 1 it cannot work here; 2 wrong usage or settings.
    """
    from slackwater.manager.bell import Bell
    from slackwater.manager.wiring import Job, go_round, now, running

    address = listen_address(listen, LISTEN)
    job = Job(namespace, lease_name, identity or f"{os.uname().nodename}-{os.getpid()}")
    access = access_of(kubeconfig, context)
    lines, bell, stop = Lines(sys.stdout.fileno(), now), Bell(), _Stop()
    stop.on(bell.ring, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        with (
            running(access, job, bell, lines.tell) as built,
            _listening(built.notice, address, lines.tell),
        ):
            go_round(built.loop, bell, stop.is_asked)
    finally:
        lines.close(_LAST_WORDS)


class _Stop:
    """Whether a signal asked for the end."""

    def __init__(self) -> None:
        self._asked = False

    def on(self, ring: Callable[[], None], *numbers: int) -> None:
        def ask(*_: object) -> None:
            self._asked = True
            ring()

        for number in numbers:
            signal.signal(number, ask)

    def is_asked(self) -> bool:
        return self._asked


@contextlib.contextmanager
def _listening(notice: "Notice", address: "ListenAddress | None", tell: "Tell") -> Iterator[None]:
    if address is None:
        yield
        return
    from slackwater.manager.routes import respond
    from slackwater.manager.wiring import now
    from slackwater.runtime.http_exchange import Request, Response
    from slackwater.runtime.http_server import CannotListenError, serving

    def answer(request: Request) -> Response:
        return respond(notice, request, now())

    def report(sentence: str) -> None:
        tell(Entry(0, now(), "endpoint", because=sentence))

    try:
        with serving(address, answer, report):
            yield
    except CannotListenError as error:
        raise Failed(str(error)) from None
