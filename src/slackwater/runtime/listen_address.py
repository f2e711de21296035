"""The address that a program listens on: an IP address and a port, as text and as a value."""

import ipaddress

import msgspec

from slackwater.model.problem import quoted

_LARGEST_PORT = 65_535


class AddressError(ValueError):
    """A text that is not an address; str() is one sentence with the text in it."""


class CannotListenError(Exception):
    """The address cannot be bound; str() is one sentence with the address and the reason."""


class ListenAddress(msgspec.Struct, frozen=True):
    """An IP address and a port; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback


def parse_listen_address(text: str) -> ListenAddress:
    """127.0.0.1:10480, [::1]:10480 or localhost:10480."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        found = ipaddress.ip_address("127.0.0.1" if bare == "localhost" else bare)
        if not (colon and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT):
            raise ValueError(port)
        if (found.version == 6) != (bare != host):  # 2001:db8::1:80 is ambiguous
            raise ValueError(host)
    except ValueError:
        raise AddressError(
            f"the address to listen on is {quoted(text)}; it must be an IP address and a port from "
            f"0 to {_LARGEST_PORT}, such as 127.0.0.1:10480 or [::1]:10480"
        ) from None
    return ListenAddress(str(found), int(port))
