"""HTTP probes: one GET request and its whole answer within its timeout.

As the kubelet's own probes: certificates are not verified, proxies of the environment are not used.
Other than those, redirects are never followed: whoever answers must not choose whom the agent asks.
"""

import ipaddress
import re
from collections.abc import Callable

from slackwater import __version__
from slackwater.contract.crane.fields import HttpGet, Scheme
from slackwater.http.connection import HttpRequest, HttpResponse, exchange
from slackwater.http.endpoint import Endpoint, Identity, Server, Trust
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.http.tls import TlsContexts
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from slackwater.observation.probes.answers import MOST_SAMPLES, Answer, TextLooks
from slackwater.observation.probes.sources import NodeProbe, PodProbe
from slackwater.observation.probes.text_format import LARGEST_ANSWER

_ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_NOBODY = Identity()
_UNVERIFIED = Trust(unchecked=True)
#: Of one metric of one pod.
MOST_SAMPLES_OF_POD = 200


class HttpTarget:
    """One address that is asked again and again. `clock` is the agent's."""

    def __init__(
        self,
        get: HttpGet,
        server: Server,
        timeout: float,
        most_samples: int,
        clock: Callable[[], Micros],
    ) -> None:
        self._endpoint = Endpoint(server, _UNVERIFIED)
        self._request = HttpRequest("GET", target_of(get))
        self._headers = headers_of(get, server)
        self._timeout = timeout
        self._contexts = TlsContexts(_UNVERIFIED)
        self._looks = TextLooks(most_samples)
        self._clock = clock

    def ask(self, names: frozenset[str]) -> Answer | Gap:
        try:
            response = self._exchange()
        except UnreachableError as error:
            return Gap(f"{self._url()}: {error.reason}")
        except RequestError as error:
            return Gap(f"{self._url()}: {error}")
        if not 200 <= response.status < 300:
            return Gap(f"{self._url()} {_describe_status(response)}")
        found = self._looks.read(response.body, names, self._clock())
        return Gap(f"{self._url()}: {found.reason}") if isinstance(found, Gap) else found

    def _exchange(self) -> HttpResponse:
        secure = self._endpoint.server.scheme == "https"
        return exchange(
            self._endpoint,
            self._request,
            self._headers,
            identity=_NOBODY,
            context=self._contexts.context(_NOBODY) if secure else None,
            seconds=self._timeout,
            largest=LARGEST_ANSWER,
        )

    def _url(self) -> str:
        """Without the query, which may hold a secret."""
        return f"{self._endpoint.server.url}{self._request.target.partition('?')[0]}"


def node_target(
    probe: NodeProbe, node_address: str, clock: Callable[[], Micros]
) -> HttpTarget | Gap:
    get = probe.get
    if isinstance(get.port, str):
        named = quoted(get.port)
        return _refuse(f"httpGet.port is {named}, but a node's ports have no names")
    refused = _refuse_headers(get)
    if refused:
        return _refuse(refused)
    server = Server(get.host or node_address, get.port, scheme_of(get))
    return HttpTarget(get, server, probe.times.timeout, MOST_SAMPLES, clock)


def pod_target(probe: PodProbe, pod: Workload, clock: Callable[[], Micros]) -> HttpTarget | Gap:
    """At the pod's own address, whatever host the probe names."""
    get = probe.get
    port = pod.ports.get(get.port) if isinstance(get.port, str) else get.port
    if port is None:
        return _refuse(f"the pod has no port {quoted(get.port)}")
    refused = _refuse_headers(get)
    if refused:
        return _refuse(refused)
    refused = _refuse_address(pod.address)
    if refused:
        return Gap(refused)
    server = Server(pod.address, port, scheme_of(get))
    return HttpTarget(get, server, probe.times.timeout, MOST_SAMPLES_OF_POD, clock)


def _refuse(why: str) -> Gap:
    """It is not asked until the object or the pod is another."""
    return Gap(why, is_lasting=True)


def _refuse_address(text: str) -> str:
    """Why a pod is not asked there: clouds hand out credentials at link-local addresses."""
    if not text:
        return "the pod's address is not known"
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return f"the pod's address is {quoted(text)}, but must be an IP address"
    if address.is_link_local or address.is_unspecified or address.is_multicast:
        return f"the pod's address is {address}, which is no pod's"
    return ""


def _refuse_headers(get: HttpGet) -> str:
    """The value is not repeated: it may be a secret."""
    bad = [each.name for each in get.http_headers if not _HEADER_VALUE.fullmatch(each.value)]
    return f"the value of the header {quoted(bad[0])} must be one line of ASCII" if bad else ""


def scheme_of(get: HttpGet) -> str:
    return "https" if get.scheme is Scheme.HTTPS else "http"


def target_of(get: HttpGet) -> str:
    """The path with its query. The fragment, which HTTP does not send, goes."""
    path = get.path.partition("#")[0]
    return path if path.startswith("/") else f"/{path}"


def headers_of(get: HttpGet, server: Server) -> tuple[tuple[str, str], ...]:
    """Those of the object replace ours of the same name."""
    own = {each.name.lower() for each in get.http_headers}
    usual = (
        ("Host", server.authority),
        ("User-Agent", f"slackwater/{__version__}"),
        ("Accept", _ACCEPT),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    )
    kept = tuple((name, value) for name, value in usual if name.lower() not in own)
    return (*kept, *((each.name, each.value) for each in get.http_headers))


def _describe_status(response: HttpResponse) -> str:
    told = f"answered {response.status}"
    if 300 <= response.status < 400:
        return f"{told}, a redirect, which is not followed"
    return told
