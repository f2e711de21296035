"""The agent's HTTP endpoints: their routes, who may use them, and their servers' life.

Its imports are heavy, so import it late. Metrics and probes are open to whoever reaches the
address; what shows pods, or changes something, is on a unix socket for root alone. A web page must
not read a node through a DNS name that it made to resolve to loopback (DNS rebinding), so an
endpoint on loopback serves requests for loopback's names only.
"""

import contextlib
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

import msgspec

from slackwater.agent.shared_state import SharedState, view_of
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.record.agent_view import RoundState
from slackwater.record.cpu_map import make_cpu_map
from slackwater.record.explanation import explain as explain_target
from slackwater.record.exposition import render_agent_metrics
from slackwater.record.interception import InterceptionWay
from slackwater.record.metrics import MetricInputs
from slackwater.record.overview import make_overview
from slackwater.record.recording import CONTENT_TYPE, encode_recording
from slackwater.runtime.health import Health, health_response
from slackwater.runtime.http_exchange import (
    ListenAddress,
    Request,
    Response,
    dispatch,
    error_response,
    json_response,
)
from slackwater.runtime.http_server import HttpServer, Report
from slackwater.runtime.unix_server import UnixServer

#: A release is one round: a read and a write for each knob, 10 µs each.
RELEASE_PATIENCE = 20.0
NO_TICK = "no tick yet"
#: For a tick that read single pods, before the response goes without them.
DETAIL_PATIENCE = 2.0
#: For the kubelet to make its tree again, as after a change of its configuration.
LOST_PATIENCE = Micros(30_000_000)
#: No route has more parameters.
_MOST_PARAMETERS = 16


class AgentHealth(Health, frozen=True, omit_defaults=True):
    problems: tuple[str, ...] = ()
    paused: str = ""
    #: What is wrong with the connection to the cluster. Not a reason to restart or to be unready.
    cluster: tuple[str, ...] = ()


class Query(msgspec.Struct, frozen=True):
    """One request to a route at the time `at`. A repeated parameter has its last value."""

    state: SharedState
    at: Micros
    parameters: Mapping[str, str] = {}
    accept: str = ""


Route = Callable[[Query], Response]


def why_lost(last: RoundState, at: Micros) -> str:
    """Why an agent without the kubelet's tree should be restarted: a start detects the tree anew,
    which may be another one by now, and adopts what was set. Empty where a restart does not help:
    while the agent waits for objects; and after a release by hand, which a restart would undo."""
    since = last.lost_since
    if since is None or last.paused or at - since <= LOST_PATIENCE:
        return ""
    return f"{last.lost}, for {(at - since) // 1_000_000} s; a restart looks for it anew"


def healthz(query: Query) -> Response:
    why = query.state.health.why_unhealthy(query.at) or why_lost(query.state.last_round, query.at)
    return health_response(AgentHealth(not why, why, cluster=_link_remarks(query)))


def _link_remarks(query: Query) -> tuple[str, ...]:
    return query.state.link(query.at).remarks()


def readyz(query: Query) -> Response:
    """Problems and a pause are shown and do not make it unready: the values stay in place."""
    problems = view_of(query.state, query.at).open_problems()
    return health_response(_readiness(query, problems))


def network_readyz(query: Query) -> Response:
    """Without the problems: their sentences name pods."""
    return health_response(_readiness(query, ()))


def _readiness(query: Query, problems: tuple[str, ...]) -> AgentHealth:
    last = query.state.last_round
    why = last.blind or ("" if query.state.journal.latest else NO_TICK)
    return AgentHealth(not why, why, problems, last.paused, _link_remarks(query))


def metrics(query: Query) -> Response:
    last = query.state.last_round
    facts = MetricInputs(
        at=query.at,
        counts=query.state.tally.counts(),
        policies=tuple(policy.name for policy in query.state.policies),
        latest=query.state.journal.latest,
        problems=len(last.problems),
        blind=bool(last.blind),
        paused=bool(last.paused),
        link=query.state.link(query.at),
        ledger_problems=len(last.ledger),
        threads=query.state.health.count_threads(),
        starts=query.state.interception.counts(),
        intercepted=query.state.interception.state.way is InterceptionWay.NRI,
    )
    return Response(HTTPStatus.OK, *render_agent_metrics(facts, query.accept))


def explain(query: Query) -> Response:
    """The target may be a pod. Pods are read only on request, so request them and wait for a
    tick."""
    target = query.parameters.get("target", "")
    if target:
        query.state.request_detail(query.at)
        query.state.wait_for_detail(DETAIL_PATIENCE)
    rows = explain_target(view_of(query.state, query.at), target)
    if isinstance(rows, Gap):
        return error_response(HTTPStatus.NOT_FOUND, rows.reason)
    return json_response(HTTPStatus.OK, rows)


def top(query: Query) -> Response:
    query.state.request_detail(query.at)
    return json_response(HTTPStatus.OK, make_overview(view_of(query.state, query.at)))


def cpus(query: Query) -> Response:
    """The machine's CPUs are read for policies that need them, or on request."""
    query.state.request_detail(query.at)
    query.state.wait_for_detail(DETAIL_PATIENCE)
    found = make_cpu_map(view_of(query.state, query.at))
    if isinstance(found, Gap):
        return error_response(HTTPStatus.SERVICE_UNAVAILABLE, found.reason)
    return json_response(HTTPStatus.OK, found)


def ticks(query: Query) -> Response:
    """The kept ticks, as a recording."""
    kept = query.state.journal.ticks
    if not kept:
        return error_response(HTTPStatus.SERVICE_UNAVAILABLE, NO_TICK)
    return Response(HTTPStatus.OK, CONTENT_TYPE, encode_recording(kept))


def release(query: Query) -> Response:
    done = query.state.request_release(RELEASE_PATIENCE)
    if done is None:
        return error_response(
            HTTPStatus.GATEWAY_TIMEOUT,
            f"no round came within {RELEASE_PATIENCE:.0f} s; the next one will release",
        )
    return json_response(HTTPStatus.OK, done)


#: For whoever reaches the address.
NETWORK_ROUTES: Mapping[str, Route] = {
    "/metrics": metrics,
    "/healthz": healthz,
    "/readyz": network_readyz,
}
#: For whoever may use the socket.
SOCKET_ROUTES: Mapping[str, Route] = {
    **NETWORK_ROUTES,
    "/readyz": readyz,
    "/v1/explain": explain,
    "/v1/top": top,
    "/v1/cpus": cpus,
    "/v1/ticks": ticks,
}
SOCKET_ORDERS: Mapping[str, Route] = {"/v1/release": release}


class NetworkContext(msgspec.Struct, frozen=True):
    """What requests over TCP are answered from."""

    state: SharedState
    address: ListenAddress


def respond_on_network(context: NetworkContext, request: Request, at: Micros) -> Response:
    if not _is_own_name(context.address, request.host):
        sentence = f"this agent does not answer to the name {quoted(request.host)}"
        return error_response(HTTPStatus.FORBIDDEN, sentence)
    path = request.target.partition("?")[0]
    if path in SOCKET_ROUTES.keys() - NETWORK_ROUTES.keys() or path in SOCKET_ORDERS:
        sentence = f"{path} is on the unix socket in the agent's state folder, for root alone"
        return error_response(HTTPStatus.NOT_FOUND, sentence)
    return _dispatch(context.state, request, at, NETWORK_ROUTES, {})


def respond_on_socket(state: SharedState, request: Request, at: Micros) -> Response:
    return _dispatch(state, request, at, SOCKET_ROUTES, SOCKET_ORDERS)


def _dispatch(
    state: SharedState,
    request: Request,
    at: Micros,
    get: Mapping[str, Route],
    post: Mapping[str, Route],
) -> Response:
    try:
        parts = urlsplit(request.target)
        parameters = dict(
            parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        )
    except ValueError:
        sentence = f"{quoted(request.target)} is not a valid address"
        return error_response(HTTPStatus.BAD_REQUEST, sentence)
    query = Query(state, at, parameters, request.accept)
    return dispatch(
        request.method,
        parts.path,
        {path: partial(route, query) for path, route in get.items()},
        {path: partial(route, query) for path, route in post.items()},
    )


def _is_own_name(address: ListenAddress, host: str | None) -> bool:
    """An agent that listens beyond loopback may be reached by any name."""
    if host is None or not address.is_loopback():
        return True
    name = host.rpartition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class EndpointAddresses(msgspec.Struct, frozen=True):
    """Where an agent serves: an address for metrics and probes, a unix socket for commands."""

    network: ListenAddress | None = None
    socket: str = ""


@contextlib.contextmanager
def serving_endpoints(
    addresses: EndpointAddresses,
    state: SharedState,
    clock: Callable[[], Micros],
    report: Report,
) -> Iterator[ListenAddress | None]:
    """They serve inside the block, which gets the address with its real port. Raises
    CannotListenError."""
    state.health.beat(clock())
    with contextlib.ExitStack() as open_servers:
        network = None
        if addresses.network is not None:
            context = NetworkContext(state, addresses.network)
            network = HttpServer(
                addresses.network, lambda r: respond_on_network(context, r, clock()), report
            )
            open_servers.callback(network.close)
        if addresses.socket:
            commands = UnixServer(
                addresses.socket, lambda r: respond_on_socket(state, r, clock()), report
            )
            open_servers.callback(commands.close)
            commands.start()
        if network is not None:
            network.start()
        yield network.address if network else None
