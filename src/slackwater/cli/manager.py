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
from slackwater.cli.output import Failed, WrongSettings
from slackwater.record.journal import Entry

if TYPE_CHECKING:
    from slackwater.agent.endpoint_note import Address
    from slackwater.manager.program import Tell
    from slackwater.manager.standing import Notice

LISTEN = "127.0.0.1:10481"
LEASE = "slackwater-manager"
_LISTEN_VARIABLE = "SLACKWATER_LISTEN"
#: Seconds for a reader of stdout to take what is left at the end.
_LAST_WORDS = 2.0


@click.command()
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    envvar=_LISTEN_VARIABLE,
    show_envvar=True,
    help="Where /metrics, /healthz and /readyz are asked for; port 0 is any free one, "
    f'"" is nowhere. Default: {LISTEN}.',
)
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

    address = _address(listen)
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


def _address(said: str | None) -> "Address | None":
    """None where nobody is to ask. An empty variable, which click takes for none, says that too."""
    from slackwater.agent.endpoint_note import AddressError, parse_address

    text = os.environ.get(_LISTEN_VARIABLE, LISTEN) if said is None else said
    try:
        return parse_address(text) if text else None
    except AddressError as error:
        raise WrongSettings(str(error)) from None


@contextlib.contextmanager
def _listening(notice: "Notice", address: "Address | None", tell: "Tell") -> Iterator[None]:
    if address is None:
        yield
        return
    from slackwater.manager.routes import respond
    from slackwater.manager.wiring import now
    from slackwater.record.http_exchange import Answer, Request
    from slackwater.record.listener import Listener

    def answer(request: Request) -> Answer:
        return respond(notice, request, now())

    def say(sentence: str) -> None:
        tell(Entry(0, now(), "endpoint", because=sentence))

    try:
        listener = Listener(address.host, address.port, answer, say)
    except OSError as error:
        raise Failed(f"cannot listen on {address}: {error.strerror}") from None
    listener.start()
    say(f"listening on http://{address.host}:{listener.port}")
    try:
        yield
    finally:
        listener.close()
