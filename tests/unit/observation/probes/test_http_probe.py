"""HTTP probes against real servers on loopback: good ones, broken ones, slow ones."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from slackwater.contract.crane.fields import HttpGet, HttpHeader, Scheme
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.http.endpoint import Server
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.model.workload import Workload
from slackwater.observation.probes.answers import Answer
from slackwater.observation.probes.http_probe import (
    MOST_SAMPLES_OF_POD,
    HttpTarget,
    headers_of,
    node_target,
    pod_target,
    target_of,
)
from slackwater.observation.probes.sources import NodeProbe, PodProbe, SourceTimes
from tests.unit.kube.byte_server import Answer as ServerAnswer
from tests.unit.kube.byte_server import HangUp, Request, Wire, serving
from tests.unit.kube.certificates import Papers
from tests.unit.observation.probes.probe_world import (
    PATIENT,
    HandClock,
    ensurance_objects,
    make_pod,
    node_probe,
    text_answer,
)

WANTED = frozenset({"latency"})
BRIEF = SourceTimes(0.2)


def target(port: int, times: SourceTimes = PATIENT, scheme: Scheme | None = None) -> HttpTarget:
    probe = node_probe(port, times, path="/metrics?secret=s3cr3t", scheme=scheme)
    found = node_target(probe, "127.0.0.1", HandClock())
    assert isinstance(found, HttpTarget)
    return found


def test_a_good_answer() -> None:
    with serving(text_answer("latency 0.04\nother 5\n")) as server:
        found = target(server.port).ask(WANTED)
        (request,) = server.requests
    assert found == Answer(HandClock().now, {"latency": (Sample(0.04),)})
    assert (request.method, request.target) == ("GET", "/metrics?secret=s3cr3t")
    assert request.header("Host") == f"127.0.0.1:{server.port}"
    assert request.header("Accept").startswith("text/plain;version=0.0.4")


def _hang(_request: Request, wire: Wire) -> None:
    wire.hang()


def _drip(_request: Request, wire: Wire) -> None:
    """Each byte in time, the whole never."""
    wire.head(200, ("Content-Type", "text/plain"))
    while not wire.closing.wait(0.02):
        wire.raw(b"#")


def _drip_head(_request: Request, wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not wire.closing.wait(0.02):
        wire.raw(b"x")


@pytest.mark.parametrize("answer", [_hang, _drip, _drip_head])
def test_whoever_is_slow_ends_at_the_timeout(answer: ServerAnswer) -> None:
    with serving(answer) as server:
        found = target(server.port, BRIEF).ask(WANTED)
    url = f"http://127.0.0.1:{server.port}/metrics"
    assert found == Gap(f"{url}: no answer within 0.2 s")


def _large(_request: Request, wire: Wire) -> None:
    wire.answer(b"# filling\n" * (1 << 20), 200, "text/plain")


def _endless(_request: Request, wire: Wire) -> None:
    """Without a length."""
    wire.head(200, ("Content-Type", "text/plain"))
    while not wire.closing.is_set():
        wire.raw(b"# filling\n" * 1000)


def _reset(_request: Request, wire: Wire) -> None:
    wire.reset()


def _half(_request: Request, wire: Wire) -> None:
    wire.head(200, ("Content-Length", "100"))
    wire.raw(b"latency 1")
    raise HangUp


def _nonsense(_request: Request, wire: Wire) -> None:
    wire.raw(b"220 mail.example.com ESMTP\r\n")


def _redirect(_request: Request, wire: Wire) -> None:
    wire.answer(b"", 302, "text/plain", ("Location", "http://169.254.169.254/token"))


@pytest.mark.parametrize(
    ("answer", "clause"),
    [
        (_large, ": an answer of more than 1 MiB"),
        (_endless, ": an answer of more than 1 MiB"),
        (_reset, ": Connection reset by peer"),
        (_half, ": the answer ended in the middle"),
        (_nonsense, ": what came is not HTTP"),
        (_redirect, " answered 302, a redirect, which is not followed"),
        (lambda _request, wire: wire.answer(b"latency 1", 500), " answered 500"),
        (lambda _request, wire: wire.answer(b"latency 1", 404), " answered 404"),
        (
            lambda _request, wire: wire.answer(b"<html><body>", 200, "text/html"),
            ": the answer is not in Prometheus' text format: line 1 begins '<html><body>'",
        ),
    ],
)
def test_what_is_no_answer_is_told_in_one_sentence(answer: ServerAnswer, clause: str) -> None:
    with serving(answer) as server:
        found = target(server.port).ask(WANTED)
        assert server.connections == 1
    assert isinstance(found, Gap)
    assert found.reason.startswith(f"http://127.0.0.1:{server.port}/metrics{clause}")
    assert "s3cr3t" not in found.reason
    assert "\n" not in found.reason


def test_nobody_there() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        found = target(port).ask(WANTED)
    assert found == Gap(f"http://127.0.0.1:{port}/metrics: Connection refused")


@pytest.mark.parametrize(
    ("body", "samples"),
    [
        ("latency NaN\n", Gap("latency is nan, not a finite number")),
        ('latency{a="1"} NaN\nlatency{a="2"} 1\n', (Sample(1.0, {"a": "2"}),)),
        ("latency 1\nlatency 1\n", Gap("latency is there twice")),
        ("other 1\n", Gap("the answer has no series 'latency'")),
        ("", Gap("the answer has no series 'latency'")),
    ],
)
def test_what_cannot_be_used_of_a_good_answer(body: str, samples: object) -> None:
    with serving(text_answer(body)) as server:
        found = target(server.port).ask(WANTED)
    assert isinstance(found, Answer)
    assert found.metrics == {"latency": samples}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('latency_bucket{le="1"} NaN\n', "latency_bucket{le='1'} is nan, not a finite number"),
        ('latency_bucket{le="1"} 1\n' * 2, "latency_bucket{le='1'} is there twice"),
        ("other 1\n", "the answer has no histogram 'latency'"),
    ],
)
def test_what_cannot_be_used_of_a_histogram(body: str, why: str) -> None:
    """Whoever sees it in the answer would look in the wrong place."""
    with serving(text_answer(body)) as server:
        found = target(server.port).ask(frozenset({"latency:p90"}))
    assert isinstance(found, Answer)
    assert found.metrics == {"latency:p90": Gap(why)}


def test_certificates_are_not_verified() -> None:
    """As the kubelet's probes."""
    papers = Papers("somebody.else.example.com")
    with serving(text_answer("latency 2\n"), papers.server_context()) as server:
        found = target(server.port, scheme=Scheme.HTTPS).ask(WANTED)
    assert isinstance(found, Answer)
    assert found.metrics == {"latency": (Sample(2.0),)}


class _SixHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f'latency{{host="{self.headers["Host"]}"}} 6\n'.encode())

    def log_message(self, format: str, *_arguments: object) -> None:  # noqa: A002
        """Tests are quiet."""


class _SixServer(HTTPServer):
    address_family = socket.AF_INET6


@pytest.fixture
def six() -> Iterator[int]:
    with _SixServer(("::1", 0), _SixHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_ipv6(six: int) -> None:
    found = node_target(node_probe(six), "::1", HandClock())
    assert isinstance(found, HttpTarget)
    answer = found.ask(WANTED)
    assert isinstance(answer, Answer)
    assert answer.metrics == {"latency": (Sample(6.0, {"host": f"[::1]:{six}"}),)}


@pytest.mark.parametrize(
    ("path", "target"),
    [("", "/"), ("metrics", "/metrics"), ("/m?a=b", "/m?a=b"), ("/m#top", "/m")],
)
def test_paths(path: str, target: str) -> None:
    assert target_of(HttpGet(80, path=path)) == target


def test_headers_of_the_object_replace_ours() -> None:
    headers = (HttpHeader("host", "inner.example.com"), HttpHeader("X-Token", "a"))
    found = headers_of(HttpGet(80, http_headers=headers), Server("h", 80, "http"))
    assert [name for name, _ in found if name.lower() == "host"] == ["host"]
    assert ("X-Token", "a") in found


def test_a_header_that_cannot_be_sent() -> None:
    headers = (HttpHeader("X-Token", "s3cr3t\r\nX-More: 1"),)
    told = Gap("the value of the header 'X-Token' must be one line of ASCII", is_lasting=True)
    assert node_target(node_probe(80, http_headers=headers), "127.0.0.1", HandClock()) == told
    probe = PodProbe(HttpGet(80, http_headers=headers), ensurance_objects(80).pod_qos[0])
    assert pod_target(probe, make_pod("web-1"), HandClock()) == told


def test_a_nodes_ports_have_no_names() -> None:
    found = node_target(NodeProbe(HttpGet("web")), "127.0.0.1", HandClock())
    told = "httpGet.port is 'web', but a node's ports have no names"
    assert found == Gap(told, is_lasting=True)


def pod_probe(port: int | str, host: str = "") -> PodProbe:
    pod_qos: PodQos = ensurance_objects(80).pod_qos[0]
    return PodProbe(HttpGet(port, host=host), pod_qos, PATIENT)


def ask_pod(pod: Workload, port: int | str, host: str = "") -> Answer | Gap:
    found = pod_target(pod_probe(port, host), pod, HandClock())
    return found if isinstance(found, Gap) else found.ask(WANTED)


def test_a_pod_is_asked_at_its_own_address_whatever_host_the_probe_names() -> None:
    with serving(text_answer("latency 3\n")) as server:
        pod = make_pod("web-1", ports={"metrics": server.port})
        found = ask_pod(pod, "metrics", host="192.0.2.1")
    assert isinstance(found, Answer)
    assert found.metrics == {"latency": (Sample(3.0),)}


@pytest.mark.parametrize(
    ("address", "port", "reason"),
    [
        ("", 80, "the pod's address is not known"),
        (
            "web.example.com",
            80,
            "the pod's address is 'web.example.com', but must be an IP address",
        ),
        ("169.254.169.254", 80, "the pod's address is 169.254.169.254, which is no pod's"),
        ("fe80::1", 80, "the pod's address is fe80::1, which is no pod's"),
        ("0.0.0.0", 80, "the pod's address is 0.0.0.0, which is no pod's"),  # noqa: S104
    ],
)
def test_pods_that_cannot_be_asked(address: str, port: int | str, reason: str) -> None:
    assert ask_pod(make_pod("web-1", address), port) == Gap(reason)


@pytest.mark.parametrize("address", ["10.0.0.1", ""])
def test_a_pod_without_the_named_port_has_to_be_changed(address: str) -> None:
    """Whatever its address will be."""
    pod = make_pod("web-1", address, ports={"admin": 81})
    assert ask_pod(pod, "web") == Gap("the pod has no port 'web'", is_lasting=True)


def test_a_pods_series_are_bounded() -> None:
    body = "".join(f'latency{{n="{n}"}} 1\n' for n in range(MOST_SAMPLES_OF_POD + 1))
    with serving(text_answer(body)) as server:
        found = ask_pod(make_pod("web-1"), server.port)
    assert isinstance(found, Answer)
    assert found.metrics == {"latency": Gap("it has 201 series, more than 200")}


def test_a_tls_handshake_is_within_the_timeout() -> None:
    """Nobody accepts the connection; the kernel alone does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = target(port, BRIEF, Scheme.HTTPS).ask(WANTED)
    assert found == Gap(f"https://127.0.0.1:{port}/metrics: no answer within 0.2 s")
