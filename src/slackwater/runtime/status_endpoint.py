"""The HTTP endpoint of a program that only shows its state: /metrics, /healthz and /readyz."""

import contextlib
from collections.abc import Callable, Iterator
from http import HTTPStatus

from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.health import Health, health_response
from slackwater.runtime.http_exchange import ListenAddress, Request, Response, dispatch
from slackwater.runtime.loop import monotonic_now

#: The content type and the body, in the format that an Accept header asks for.
RenderMetrics = Callable[[str], tuple[str, bytes]]


def respond(
    request: Request,
    check_alive: Callable[[], Health],
    check_ready: Callable[[], Health],
    render_metrics: RenderMetrics,
) -> Response:
    return dispatch(
        request.method,
        request.target.partition("?")[0],
        {
            "/healthz": lambda: health_response(check_alive()),
            "/readyz": lambda: health_response(check_ready()),
            "/metrics": lambda: Response(HTTPStatus.OK, *render_metrics(request.accept)),
        },
    )


@contextlib.contextmanager
def bound_endpoint(
    address: ListenAddress | None, answer: Callable[[Request], Response], write: EntrySink
) -> Iterator[Callable[[], None]]:
    """Bound to the address inside the block; serves once the function is called that it yields.
    Without an address there is no endpoint. Raises CannotListenError."""
    if address is None:
        yield lambda: None
        return
    from slackwater.runtime.http_server import HttpServer

    def report(sentence: str) -> None:
        write(JournalEntry(0, monotonic_now(), "endpoint", because=sentence))

    server = HttpServer(address, answer, report)
    try:
        yield server.start
    finally:
        server.close()
