"""The two files in its state folder by which commands find a running agent: endpoint and token.

The token is as secret as the folder: whoever can read it can release. Both files are valid only
while their agent holds the ledger's lock; whoever finds that lock free must not trust them.
"""

import os
from contextlib import suppress

import msgspec

from slackwater.model.gap import Gap
from slackwater.runtime.http_exchange import AddressError, ListenAddress, parse_listen_address

ENDPOINT, TOKEN = "endpoint", "token"
_LONGEST = 256


class EndpointFile(msgspec.Struct, frozen=True):
    """Where a running agent listens, and the token that its write routes ask for."""

    address: ListenAddress
    token: str


def write_endpoint_file(state: str, found: EndpointFile) -> Gap | None:
    """The token first: a reader that finds the endpoint also finds its token."""
    try:
        _replace(state, TOKEN, found.token)
        _replace(state, ENDPOINT, str(found.address))
    except OSError as error:
        remove_endpoint_file(state)
        return Gap(f"the endpoint cannot be noted in {state}: {error.strerror}")
    return None


def read_endpoint_file(state: str) -> EndpointFile | None:
    """None if no agent listens."""
    try:
        return EndpointFile(parse_listen_address(_content(state, ENDPOINT)), _content(state, TOKEN))
    except (OSError, AddressError):
        return None


def remove_endpoint_file(state: str) -> None:
    """Also what a killed agent left behind."""
    for name in (ENDPOINT, TOKEN):
        with suppress(OSError):
            os.unlink(os.path.join(state, name))


def _replace(state: str, name: str, text: str) -> None:
    """Atomically, and readable by its owner alone."""
    path = os.path.join(state, name)
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.new")
    made = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(made, f"{text}\n".encode())
    finally:
        os.close(made)
    os.rename(f"{path}.new", path)


def _content(state: str, name: str) -> str:
    with open(os.path.join(state, name), encoding="ascii", errors="replace") as file:
        return file.read(_LONGEST).strip()
