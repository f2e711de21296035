"""Where a program listens: the --listen option of the agent, the manager and the rebalancer."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from slackwater.cli.output import WrongSettings

if TYPE_CHECKING:
    from slackwater.runtime.http_exchange import ListenAddress

_VARIABLE = "SLACKWATER_LISTEN"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def listen_option(routes: str, default: str) -> Callable[[_Command], _Command]:
    """`default` is a sentence of the help."""
    return click.option(
        "--listen",
        metavar="ADDRESS:PORT",
        envvar=_VARIABLE,
        show_envvar=True,
        help=f'Where {routes} are served; port 0 is any free one, "" disables it. {default}',
    )


def listen_address(said: str | None, default: str) -> "ListenAddress | None":
    """None disables the listener. click takes an empty variable for an unset one; here it disables
    the listener, as an empty option does."""
    from slackwater.runtime.http_exchange import AddressError, parse_listen_address

    text = os.environ.get(_VARIABLE, default) if said is None else said
    try:
        return parse_listen_address(text) if text else None
    except AddressError as error:
        raise WrongSettings(str(error)) from None
