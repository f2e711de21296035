"""Where a running agent is asked: its address, and the two files in its state folder that say so.

Owns the spelling of an address, STATE/endpoint and STATE/token. The token is as secret as the
folder is: who may read it may release. Both files are as old as the agent that holds the
ledger's lock, so who finds that lock free must not believe them.
"""

import ipaddress
import os
from contextlib import suppress

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

ENDPOINT, TOKEN = "endpoint", "token"
_LARGEST_PORT = 65_535
_LONGEST = 256


class AddressError(ValueError):
    """A text that is no address; str() is one sentence with the text in it."""


class Address(msgspec.Struct, frozen=True):
    """An IP address and a port; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback


class Note(msgspec.Struct, frozen=True):
    """How to ask a running agent."""

    address: Address
    token: str


def parse_address(text: str) -> Address:
    """127.0.0.1:10480, [::1]:10480 or localhost:10480."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        found = ipaddress.ip_address("127.0.0.1" if bare == "localhost" else bare)
        if not (colon and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT):
            raise ValueError(port)
        if (found.version == 6) != (bare != host):  # 2001:db8::1:80 is two things
            raise ValueError(host)
    except ValueError:
        raise AddressError(
            f"the address to listen on is {quoted(text)}; it must be an IP address and a port from "
            f"0 to {_LARGEST_PORT}, such as 127.0.0.1:10480 or [::1]:10480"
        ) from None
    return Address(str(found), int(port))


def write_note(state: str, note: Note) -> Gap | None:
    """The token first: who finds an endpoint finds its token."""
    try:
        _replace(state, TOKEN, note.token)
        _replace(state, ENDPOINT, str(note.address))
    except OSError as error:
        remove_note(state)
        return Gap(f"the endpoint cannot be noted in {state}: {error.strerror}")
    return None


def read_note(state: str) -> Note | None:
    """None where no agent listens."""
    try:
        return Note(parse_address(_content(state, ENDPOINT)), _content(state, TOKEN))
    except (OSError, AddressError):
        return None


def remove_note(state: str) -> None:
    """Also what a killed agent left."""
    for name in (ENDPOINT, TOKEN):
        with suppress(OSError):
            os.unlink(os.path.join(state, name))


def _replace(state: str, name: str, text: str) -> None:
    """Whole or not at all, and for nobody else's eyes."""
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
