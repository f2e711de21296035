"""Owns the one question to a server on loopback: does it answer 200 at this path?"""

import http.client
import ssl
from pathlib import Path

from tools.cluster.certificates import Identity
from tools.cluster.ports import LOOPBACK

_TIMEOUT_SECONDS = 5.0


def trusting(authority: Path, identity: Identity) -> ssl.SSLContext:
    """Knows the cluster's authority, and shows who we are."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(str(identity.certificate), str(identity.key))
    return context


def unchecked() -> ssl.SSLContext:
    """For programs that sign their own certificate and are asked for no secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def answers(port: int, path: str, context: ssl.SSLContext | None) -> bool:
    """Without a context it is asked in the clear."""
    connection = (
        http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS)
        if context is None
        else http.client.HTTPSConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS, context=context)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
