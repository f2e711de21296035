"""Who may ask the endpoint what: names of the host, methods, the token.

Owns the way from a request's few words to a route. A page in somebody's browser must not read a
node through a name that it made to point here (DNS rebinding), so a listener on loopback answers
to loopback's names alone.
"""

import hmac
import ipaddress
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

import msgspec

from slackwater.agent.board import Board
from slackwater.agent.endpoint_note import Address
from slackwater.agent.endpoint_routes import LOOKS, ORDERS, Asked
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.record.http_exchange import Answer, Request, refused

_LOOK_METHODS = ("GET", "HEAD")
_ORDER_METHODS = ("POST",)
#: No route knows more words.
_MOST_WORDS = 16


class Door(msgspec.Struct, frozen=True):
    """What is behind it, and who is let in. Without a token nobody orders anything."""

    board: Board
    address: Address
    started: Micros
    token: str = ""


def respond(door: Door, request: Request, at: Micros) -> Answer:
    if not _is_ours(door.address, request.host):
        sentence = f"this agent does not answer to the name {quoted(request.host)}"
        return refused(HTTPStatus.FORBIDDEN, sentence)
    try:
        parts = urlsplit(request.target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MOST_WORDS))
    except ValueError:
        return refused(HTTPStatus.BAD_REQUEST, f"{quoted(request.target)} is no address here")
    asked = Asked(door.board, at, door.started, query, request.accept)
    if parts.path in LOOKS:
        wrong = _wrong_method(request.method, _LOOK_METHODS, parts.path)
        return wrong or LOOKS[parts.path](asked)
    if parts.path in ORDERS:
        wrong = _wrong_method(request.method, _ORDER_METHODS, parts.path)
        return wrong or _wrong_token(door.token, request) or ORDERS[parts.path](asked)
    there = ", ".join((*LOOKS, *ORDERS))
    return refused(HTTPStatus.NOT_FOUND, f"there is no {quoted(parts.path)}; there are {there}")


def _is_ours(address: Address, host: str | None) -> bool:
    """Who listens beyond loopback is meant to be reached by any name."""
    if host is None or not address.is_loopback():
        return True
    name = host.rpartition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _wrong_method(method: str, allowed: tuple[str, ...], path: str) -> Answer | None:
    if method in allowed:
        return None
    sentence = f"{path} is asked with {' or '.join(allowed)}, not with {quoted(method)}"
    return refused(HTTPStatus.METHOD_NOT_ALLOWED, sentence, {"Allow": ", ".join(allowed)})


def _wrong_token(token: str, request: Request) -> Answer | None:
    if not token:
        return refused(HTTPStatus.FORBIDDEN, "this agent takes no orders here: it noted no token")
    scheme, _, given = request.authorization.partition(" ")
    if scheme.lower() != "bearer":
        sentence = "this needs the token that the agent keeps in its state folder"
        return refused(HTTPStatus.UNAUTHORIZED, sentence, {"WWW-Authenticate": "Bearer"})
    if not hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode()):
        return refused(HTTPStatus.FORBIDDEN, "the token is not this agent's")
    return None
