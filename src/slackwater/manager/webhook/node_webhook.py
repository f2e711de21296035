"""The webhook as a part of the manager: built, served by every replica, and ended with it."""

import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

from slackwater.kube.client import Client
from slackwater.manager.webhook.review import answer_review
from slackwater.manager.webhook.webhook_names import PATH, SERVICE
from slackwater.manager.webhook.webhook_state import WebhookState
from slackwater.model.problem import quoted
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import EntrySink
from slackwater.runtime.http_exchange import ListenAddress, Response, error_response
from slackwater.runtime.loop import monotonic_now


@contextlib.contextmanager
def serving_webhook(
    address: ListenAddress | None,
    client: Client,
    namespace: str,
    leads: Callable[[], bool],
    state: WebhookState,
    write: EntrySink,
) -> Iterator[None]:
    """Inside the block; without an address there is none. Raises CannotListenError."""
    if address is None:
        yield
        return
    # Only here: a manager without a webhook needs no cryptography.
    from slackwater.manager.webhook.certificate_rotation import CertificateRotation
    from slackwater.manager.webhook.https_server import HttpsServer

    def tell(about: str, sentence: str) -> None:
        write(JournalEntry(0, monotonic_now(), about, because=sentence))

    def note_expiry(expires: float | None) -> None:
        state.expires = expires

    state.enabled = True
    rotation = CertificateRotation(
        client,
        namespace,
        certificate_names(namespace, address),
        leads=leads,
        loaded=note_expiry,
        tell=lambda sentence: tell("certificates", sentence),
        clock=lambda: dt.datetime.now(dt.UTC),
    )
    server = HttpsServer(
        address,
        rotation.context,
        lambda path, body: respond(path, body, state, tell),
        state.drop,
        lambda sentence: tell("webhook", sentence),
    )
    rotation.start()
    server.start()
    tell("webhook", f"listening on https://{server.address}{PATH}")
    try:
        yield
    finally:
        server.close()
        rotation.stop()


def certificate_names(namespace: str, address: ListenAddress) -> tuple[str, ...]:
    """What the API server asks for: our Service; on one machine, the address itself."""
    service = f"{SERVICE}.{namespace}.svc"
    return (service, address.host) if address.is_loopback() else (service,)


def respond(
    path: str, body: bytes, state: WebhookState, tell: Callable[[str, str], None]
) -> Response:
    if path.partition("?")[0] != PATH:
        state.drop()
        return error_response(HTTPStatus.NOT_FOUND, f"there is no {quoted(path)}; there is {PATH}")
    began = time.monotonic()
    answer = answer_review(body)
    state.count(answer, began, time.monotonic(), tell)
    return Response(answer.status, "application/json", answer.body)
