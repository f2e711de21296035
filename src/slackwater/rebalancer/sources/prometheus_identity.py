"""Where Prometheus is and who we are there: its address, our headers, our certificate.

Owns the ways to say who we are: an Authorization header of one's own, a token's file, or a name
and a password's file. Files are read at each query, so that a rotated token is found. Refuses two
ways at once, a user in the address (addresses are printed), and what no header can hold; never
shows a secret.
"""

import base64
import re
from urllib.parse import urlsplit

import msgspec

from slackwater.bounded_read import read_start
from slackwater.http.endpoint import Identity, Server
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.rebalancer.sources.prometheus_answer import PrometheusError
from slackwater.settings.rebalancer import PrometheusSettings

_QUERY_PATH = "/api/v1/query"
_TENANT = "X-Scope-OrgID"
_WANTED = (
    "an address such as http://localhost:9090 or https://metrics.example.com/prometheus, without a "
    "user or a question mark"
)
#: RFC 9110: a token, and what may stand behind the colon.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
#: Printable ASCII without a question mark, a number sign or a space.
_ADDRESS = re.compile(r"[!\"$->@-~]*", re.ASCII)
#: No token, password or certificate is as long.
_LARGEST_FILE = 1 << 20
#: Shorter ones would turn ordinary words of an error into stars.
_SHORTEST_SECRET = 4


class Address(msgspec.Struct, frozen=True):
    """`url`: of queries; `base`: what was named, for people."""

    url: str
    server: Server
    base: str


class Shown(msgspec.Struct, frozen=True):
    """What goes with a query, and what of it must never be printed."""

    headers: dict[str, str]
    secrets: tuple[str, ...]


def read_address(endpoint: str) -> Address:
    """Raises PrometheusError. The path is a prefix, as VictoriaMetrics' cluster has one."""
    try:
        parts = urlsplit(endpoint)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise _refused(endpoint) from None
    plain = _ADDRESS.fullmatch(endpoint) and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise _refused(endpoint)
    prefix = parts.path.rstrip("/").removesuffix(_QUERY_PATH)
    server = Server(host, port or (443 if parts.scheme == "https" else 80), parts.scheme, prefix)
    base = f"{parts.scheme}://{parts.netloc}{prefix}"
    return Address(f"{base}{_QUERY_PATH}", server, base)


def headers_of(settings: PrometheusSettings, user_agent: str) -> Shown:
    """Raises PrometheusError."""
    headers = {
        "User-Agent": user_agent,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    secrets: list[str] = []
    if settings.tenant:
        headers[_TENANT] = _checked(settings.tenant, "the tenant")
    authorization = _authorization(settings, secrets)
    if authorization:
        headers["Authorization"] = authorization
    for name, value in settings.headers:
        if not _NAME.fullmatch(name):
            raise PrometheusError(f"{quoted(name)} is no name of a header")
        if name.lower() == "authorization" and authorization:
            way = "a token's file" if settings.token_file else "a user name"
            raise PrometheusError(f"the header {name} and {way} exclude each other")
        headers = {key: said for key, said in headers.items() if key.lower() != name.lower()}
        headers[name] = _checked(value, f"the value of the header {name}")
        secrets += [value, *value.split()[1:]]
    kept = (each for each in secrets if len(each) >= _SHORTEST_SECRET)
    return Shown(headers, tuple(sorted(set(kept), key=len, reverse=True)))


def certificate_of(settings: PrometheusSettings) -> Identity:
    """Ours; an empty one where none is set. Without a key's file the key stands beside it."""
    if not settings.certificate_file:
        if settings.key_file:
            raise PrometheusError("there is a key's file, but no certificate's")
        return Identity()
    certificate = _contents(settings.certificate_file)
    key = _contents(settings.key_file) if settings.key_file else b""
    return Identity(certificate=certificate, key=key)


def _authorization(settings: PrometheusSettings, secrets: list[str]) -> str:
    if settings.token_file:
        if settings.username:
            raise PrometheusError("a token's file and a user name exclude each other")
        token = _checked(
            _secret(settings.token_file).strip(), f"the token in {settings.token_file}"
        )
        secrets.append(token)
        return f"Bearer {token}"
    if not settings.username:
        if settings.password_file:
            raise PrometheusError("there is a password's file, but no user name")
        return ""
    user = settings.username
    password = _secret(settings.password_file) if settings.password_file else ""
    if ":" in user:
        raise PrometheusError("the user name has a colon, which basic authentication forbids")
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets += [password, pair]
    return f"Basic {pair}"


def _secret(path: str) -> str:
    """The text of a file, without the line end that editors leave."""
    try:
        text = _contents(path).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise PrometheusError(f"{path} must hold one line of text, and nothing else")
    return text


def _contents(path: str) -> bytes:
    match read_start(path, _LARGEST_FILE):
        case Gap(reason):
            raise PrometheusError(f"{path} is {reason}")
        case found:
            return found.data


def _checked(value: str, what: str) -> str:
    if not _VALUE.fullmatch(value):
        raise PrometheusError(f"{what} must be one line of ASCII")
    return value


def _refused(endpoint: str) -> PrometheusError:
    scheme, mark, rest = endpoint.partition("://")
    told = f"{scheme}{mark}{rest.rpartition('@')[2]}".partition("?")[0]
    return PrometheusError(f"the endpoint of Prometheus is {quoted(told)}, but must be {_WANTED}")
