"""How a server is reached: its address, whom to trust, what to present, and which proxy to use.

The rules for proxies (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) are Go's
(golang.org/x/net/http/httpproxy), so that we take the same way as kubectl. SOCKS proxies, and
proxies that are themselves reached over TLS, are refused.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

if TYPE_CHECKING:
    import ipaddress

DEFAULT_PORTS = {"http": 80, "https": 443}
_WANTED = "an HTTP proxy such as http://proxy:3128"


class Server(msgspec.Struct, frozen=True):
    """`prefix` is put in front of every path; it has no slash at its end."""

    host: str
    port: int
    scheme: str = "https"
    prefix: str = ""

    @property
    def bracketed(self) -> str:
        """The host as URLs and headers spell it: IPv6 addresses in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """The value of a Host header, without the scheme's default port."""
        usual = self.port == DEFAULT_PORTS.get(self.scheme)
        return self.bracketed if usual else f"{self.bracketed}:{self.port}"

    @property
    def url(self) -> str:
        """Without the scheme's default port."""
        return f"{self.scheme}://{self.authority}{self.prefix}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bracketed}:{self.port}{self.prefix}"


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy. `authorization` is the value of Proxy-Authorization."""

    host: str
    port: int
    authorization: str = ""


class Trust(msgspec.Struct, frozen=True):
    """Which certificates are trusted: without an authority the system's; `unchecked`: any."""

    authority_file: str = ""
    authority_data: bytes = b""
    server_name: str = ""
    unchecked: bool = False


class Identity(msgspec.Struct, frozen=True):
    """What we authenticate with: an Authorization header, a client certificate, or nothing."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Endpoint(msgspec.Struct, frozen=True):
    """One server with everything that is needed to connect to it."""

    server: Server
    trust: Trust = Trust()
    proxy: Proxy | None = None


def basic_authorization(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def proxy_for(server: Server, environ: Mapping[str, str]) -> Proxy | Gap | None:
    """The environment's proxy for this server, or None."""
    name = f"{server.scheme}_proxy".upper()
    text = environ.get(name) or environ.get(name.lower()) or ""
    spared = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not text or _is_spared(server, spared):
        return None
    return parse_proxy(text, name)


def parse_proxy(text: str, where: str) -> Proxy | Gap:
    """A proxy's URL; a bare host:port means http, as in Go."""
    refused = Gap(f"{where} is {quoted(_without_password(text))}, but must be {_WANTED}")
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        port = url.port or 80
    except ValueError:
        return refused
    if url.scheme != "http" or not url.hostname:
        return refused
    try:
        return Proxy(url.hostname, port, _authorization(url.username, url.password))
    except UnicodeError:  # a variable that is no UTF-8 has lone surrogates
        return refused


def _authorization(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    return basic_authorization(unquote(user), unquote(password or ""))


def _without_password(text: str) -> str:
    scheme, mark, rest = text.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _is_spared(server: Server, spared: str) -> bool:
    host = server.host.lower().rstrip(".")
    if host == "localhost" or _is_loopback(host):
        return True
    return any(_matches(rule.strip().lower(), host, server.port) for rule in spared.split(","))


def _matches(rule: str, host: str, port: int) -> bool:
    """A rule is *, an address, a network, a domain (with its subdomains) or .domain (subdomains
    only); all but networks may have a port."""
    if rule in ("", "*") or "/" in rule:
        return rule == "*" or _is_within(host, rule)
    bare, _, last = rule.rpartition(":")
    if bare and last.isdigit() and (":" not in bare or bare.endswith("]")):
        if int(last) != port:
            return False
        rule = bare
    rule, address = rule.strip("[]"), _address(host)
    if address is not None:
        return _address(rule) == address
    rule = rule.removeprefix("*")
    if rule.startswith("."):
        return host.endswith(rule)
    return host == rule or host.endswith(f".{rule}")


def _is_loopback(host: str) -> bool:
    found = _address(host)
    return found is not None and found.is_loopback


def _is_within(host: str, network: str) -> bool:
    import ipaddress

    found = _address(host)
    try:
        return found is not None and found in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _address(text: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address | None":
    import ipaddress

    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
