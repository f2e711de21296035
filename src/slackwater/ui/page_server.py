"""Serves the page on loopback until Ctrl-C or SIGTERM."""

import contextlib
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from slackwater.ui.security import AccessCheck, make_token

LOOPBACK = "127.0.0.1"
_LARGEST_BACKLOG = 64
#: A browser opens six connections; a few windows and tools beside it.
_MOST_CONNECTIONS = 64
#: Seconds for answers under way when the program is to end.
_ENDS_WITHIN = 1


class CannotOpenPageError(Exception):
    """str() is one sentence."""


def listen(port: int) -> socket.socket:
    """On a port of loopback, a free one for 0. Raises CannotOpenPageError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((LOOPBACK, port))
    except OSError as error:
        made.close()
        raise CannotOpenPageError(
            f"port {port} of {LOOPBACK} cannot be listened on: {error.strerror}; "
            "name another with --port, or leave it out for a free one"
        ) from None
    made.listen(_LARGEST_BACKLOG)
    return made


def serve(app: ASGIApp, port: int, ready: Callable[[str], None]) -> None:
    """`ready` is called with the page's address once it can be opened."""
    with contextlib.closing(listen(port)) as listening:
        chosen: int = listening.getsockname()[1]
        token = make_token()
        checked = AccessCheck(app, token, lambda: chosen)
        config = uvicorn.Config(
            checked,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            server_header=False,
            date_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_ENDS_WITHIN,
        )
        ready(f"http://{LOOPBACK}:{chosen}/{token}/")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
