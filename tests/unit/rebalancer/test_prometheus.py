"""The client over real sockets, against a server that answers as no Prometheus should."""

import random
import socket
import ssl
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from slackwater.model.units import Micros
from slackwater.rebalancer import prometheus_wire
from slackwater.rebalancer.prometheus import Prometheus, PrometheusError, Series
from slackwater.settings.rotation import PrometheusSettings
from tests.unit.kube.byte_server import Answer, HangUp, Request, Wire, serving
from tests.unit.kube.certificates import Papers

SECOND = 1_000_000
ONE = Series({"pod": "web-a"}, 1.5)
GOOD = (
    b'{"status":"success","data":{"resultType":"vector","result":'
    b'[{"metric":{"pod":"web-a"},"value":[1794917409.853,"1.5"]}]}}'
)


def well(_request: Request, wire: Wire) -> None:
    wire.answer(GOOD)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def settings_for(port: int, timeout: float = 20.0, retries: int = 2) -> PrometheusSettings:
    return PrometheusSettings(
        endpoint=f"http://127.0.0.1:{port}", timeout=Micros(int(timeout * SECOND)), retries=retries
    )


def refusal(server: Prometheus) -> str:
    with pytest.raises(PrometheusError) as caught:
        server.query("up")
    told = str(caught.value)
    assert "\n" not in told
    return told


def first_then_well(*first: Answer) -> Answer:
    """Each answer once, then good ones."""
    left = list(first)

    def answer(request: Request, wire: Wire) -> None:
        (left.pop(0) if left else well)(request, wire)

    return answer


def status(code: int, *headers: tuple[str, str]) -> Answer:
    return lambda _request, wire: wire.answer(b"busy", code, "text/plain", *headers)


def test_a_query() -> None:
    with serving(well) as server:
        assert Prometheus(settings_for(server.port)).query("up", 1794917409.8531) == (ONE,)
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/api/v1/query")
    assert parse_qs(request.body.decode()) == {"query": ["up"], "time": ["1794917409.853"]}
    assert request.header("Content-Type") == "application/x-www-form-urlencoded"
    assert request.header("Accept-Encoding") == "identity"
    assert request.header("User-Agent").startswith("slackwater/")
    assert request.header("Authorization") == ""


def test_the_instant_is_now_by_default() -> None:
    with serving(well) as server:
        before = time.time()
        Prometheus(settings_for(server.port)).query("up")
    asked = float(parse_qs(server.requests[0].body.decode())["time"][0])
    assert before - 0.001 <= asked <= time.time()


def test_a_path_in_front() -> None:
    with serving(well) as server:
        endpoint = f"http://127.0.0.1:{server.port}/select/0/prometheus/"
        assert Prometheus(PrometheusSettings(endpoint=endpoint)).query("up") == (ONE,)
    assert server.asked() == ["POST /select/0/prometheus/api/v1/query"]


def test_signs_of_all_kinds_come_through() -> None:
    text = 'up{a="ü→ &=+%\\n"}[5m]'
    with serving(well) as server:
        Prometheus(settings_for(server.port)).query(text)
    assert parse_qs(server.requests[0].body.decode())["query"] == [text]


def test_what_is_no_unicode() -> None:
    """An argument or a variable of the environment that is no UTF-8 has such signs."""
    with pytest.raises(PrometheusError, match="the query holds characters that are no Unicode"):
        Prometheus(settings_for(1)).query("up{a='\udcff'}")


def test_headers_are_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")
    with serving(well) as server:
        settings = PrometheusSettings(
            endpoint=f"http://127.0.0.1:{server.port}",
            tenant="team-a",
            token_file=str(tmp_path / "token"),
            headers=(("X-Extra", "yes"),),
        )
        Prometheus(settings).query("up")
    sent = server.requests[0]
    assert [sent.header(name) for name in ("X-Scope-OrgID", "Authorization", "X-Extra")] == [
        "team-a",
        "Bearer t0ken",
        "yes",
    ]


def test_warnings_come_with_ask() -> None:
    warned = GOOD[:-1] + b',"warnings":["a store is away"]}'
    with serving(lambda _request, wire: wire.answer(warned)) as server:
        found = Prometheus(settings_for(server.port)).ask("up")
    assert (found.series, found.warnings) == ((ONE,), ("a store is away",))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(500), "it answered 500: 'busy'"),
        (status(404), "it answered 404: 'busy'"),
        (status(401), "it answered 401, so the credentials are missing or wrong: 'busy'"),
        (
            lambda _r, wire: wire.json(
                {"status": "error", "errorType": "bad_data", "error": "parse error"}, 400
            ),
            "it answered 400: bad_data: parse error",
        ),
        (
            lambda _r, wire: wire.answer(b"<html>Log in</html>", 200, "text/html; charset=utf-8"),
            (
                "the answer is text/html instead of JSON, from a proxy or a login page perhaps: "
                "'<html>Log in</html>'"
            ),
        ),
        (
            lambda _r, wire: wire.answer(b"", 302, "text/html", ("Location", "http://b/?c=d")),
            (
                "it sends us on to 'http://b/' (302), and credentials do not follow; name the "
                "endpoint that answers itself"
            ),
        ),
        (
            lambda _r, wire: wire.answer(GOOD[:30]),
            "the answer is not what Prometheus sends: Input data was truncated",
        ),
    ],
)
def test_bad_answers_are_not_asked_for_again(answer: Answer, expected: str) -> None:
    with serving(answer) as server:
        told = refusal(Prometheus(settings_for(server.port), sleep=_never))
    assert told == f"Prometheus at http://127.0.0.1:{server.port}: {expected}"
    assert len(server.requests) == 1


def _never(_seconds: float) -> None:
    raise AssertionError("nothing was to be waited for")


@pytest.mark.parametrize(
    "answer",
    [
        status(429),
        status(502),
        status(503),
        status(504),
        lambda _r, wire: wire.answer(b""),
        lambda _r, wire: wire.reset(),
        # The beginning of a body, a chunk without its end, half a head: then nobody is there.
        lambda _r, wire: (wire.head(200, ("Content-Length", "500")), wire.raw(GOOD), wire.reset()),
        lambda _r, wire: (wire.begin_chunks(), wire.raw(b"fff\r\nabc"), wire.reset()),
        lambda _r, wire: (wire.raw(b"HTTP/1.1 200 OK\r\nContent-"), wire.reset()),
    ],
)
def test_what_may_pass_is_asked_for_again(answer: Answer) -> None:
    pauses: list[float] = []
    with serving(first_then_well(answer, answer)) as server:
        client = Prometheus(settings_for(server.port), pauses.append, random.Random(1))  # noqa: S311
        assert client.query("up") == (ONE,)
    assert len(server.requests) == 3
    assert 0.125 <= pauses[0] <= 0.25 <= pauses[1] <= 0.5


def _half_closed(_request: Request, wire: Wire) -> None:
    """A length is promised, and the end comes in good order."""
    wire.head(200, ("Content-Type", "application/json"), ("Content-Length", "500"))
    wire.raw(GOOD)
    raise HangUp


def test_half_an_answer_is_none() -> None:
    with serving(_half_closed) as server:
        told = refusal(Prometheus(settings_for(server.port, retries=0)))
    assert told == f"Prometheus at http://127.0.0.1:{server.port}: the answer ended in the middle"


def test_tries_have_an_end() -> None:
    pauses: list[float] = []
    with serving(status(503)) as server:
        told = refusal(Prometheus(settings_for(server.port), pauses.append))
    assert (
        told == f"Prometheus at http://127.0.0.1:{server.port}: it answered 503: 'busy' (3 tries)"
    )
    assert (len(server.requests), len(pauses)) == (3, 2)


def test_retry_after_is_honoured() -> None:
    pauses: list[float] = []
    with serving(first_then_well(status(429, ("Retry-After", "3")))) as server:
        assert Prometheus(settings_for(server.port), pauses.append).query("up") == (ONE,)
    assert 3.0 < pauses[0] < 3.5


def test_a_pause_beyond_the_timeout_is_not_waited_for() -> None:
    with serving(status(503, ("Retry-After", "3600"))) as server:
        told = refusal(Prometheus(settings_for(server.port), sleep=_never))
    assert told.endswith("it answered 503: 'busy'")
    assert len(server.requests) == 1


def test_nobody_listens() -> None:
    with socket.socket() as holder:  # bound and not listening: nobody else can take it
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        pauses: list[float] = []
        told = refusal(Prometheus(settings_for(port), pauses.append))
    assert told == f"Prometheus at http://127.0.0.1:{port}: Connection refused (3 tries)"


def test_a_name_that_nobody_knows() -> None:
    settings = PrometheusSettings(endpoint="http://prometheus.invalid:9090", retries=0)
    told = refusal(Prometheus(settings))
    assert told == "Prometheus at http://prometheus.invalid:9090: its name is not known"


def test_what_is_no_http() -> None:
    with serving(lambda _r, wire: wire.raw(b"SSH-2.0-OpenSSH_9.2\r\n")) as server:
        told = refusal(Prometheus(settings_for(server.port, retries=0)))
    assert "what came is not HTTP (BadStatusLine SSH-2.0-OpenSSH_9.2" in told


def _dripping(_request: Request, wire: Wire) -> None:
    wire.head(200, ("Content-Type", "application/json"))
    while not wire.closing.wait(0.02):
        wire.raw(b" ")


def _dripping_head(_request: Request, wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not wire.closing.wait(0.02):
        wire.raw(b"x")


def _dripping_chunks(_request: Request, wire: Wire) -> None:
    wire.begin_chunks()
    while not wire.closing.wait(0.02):
        wire.chunk(b" ")


@pytest.mark.parametrize(
    "answer", [lambda _r, wire: wire.hang(), _dripping, _dripping_head, _dripping_chunks]
)
def test_the_timeout_is_for_all_of_it(answer: Answer) -> None:
    """A server that says a little again and again does not keep us."""
    with serving(answer) as server:
        began = time.monotonic()
        told = refusal(Prometheus(settings_for(server.port, timeout=0.3)))
        took = time.monotonic() - began
    assert told == f"Prometheus at http://127.0.0.1:{server.port}: no whole answer within 0.3 s"
    assert 0.25 < took < 5
    assert len(server.requests) == 1


def test_a_handshake_that_drips() -> None:
    """Also before anything of HTTP is said: raw bytes of a TLS record that never ends."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"\x16\x03\x03\x3f\xff")
                while not stop.wait(0.02):
                    try:
                        connection.sendall(b"\x02")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            endpoint = f"https://127.0.0.1:{listener.getsockname()[1]}"
            settings = PrometheusSettings(endpoint=endpoint, timeout=Micros(SECOND * 3 // 10))
            began = time.monotonic()
            told = refusal(Prometheus(settings))
            took = time.monotonic() - began
        finally:
            stop.set()
            thread.join()
    assert told == f"Prometheus at {endpoint}: no whole answer within 0.3 s"
    assert took < 5


def test_an_answer_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_wire, "LARGEST_ANSWER", 1 << 20)
    with serving(lambda _r, wire: wire.answer(b" " * ((1 << 20) + 1))) as server:
        told = refusal(Prometheus(settings_for(server.port)))
    assert told.endswith("the answer has more than 1 MiB; the query asks for too many series")


def test_no_sockets_and_threads_are_left() -> None:
    with serving(first_then_well(status(500))) as server:
        client = Prometheus(settings_for(server.port))
        refusal(client)
        client.query("up")
        left = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
        for each in left:
            each.join(5)
        assert not any(each.is_alive() for each in left)


def test_threads_may_share_it() -> None:
    found: list[tuple[Series, ...]] = []
    with serving(well) as server:
        client = Prometheus(settings_for(server.port))
        threads = [
            threading.Thread(target=lambda: found.append(client.query("up"))) for _ in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert found == [(ONE,)] * 8


def test_secrets_stay_ours(tmp_path: Path) -> None:
    """Also where the server shows what it was sent."""
    (tmp_path / "password").write_text("p4ssw0rd")

    def echo(request: Request, wire: Wire) -> None:
        told = f"you sent {request.header('Authorization')} and p4ssw0rd".encode()
        wire.answer(told, 500, "text/plain")

    with serving(echo) as server:
        settings = PrometheusSettings(
            endpoint=f"http://127.0.0.1:{server.port}",
            username="me",
            password_file=str(tmp_path / "password"),
        )
        told = refusal(Prometheus(settings))
    assert told.endswith("it answered 500: 'you sent Basic *** and ***'")


def test_redirects_get_no_credentials(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken")
    with serving(well) as other:
        target = f"http://127.0.0.1:{other.port}/api/v1/query"
        with serving(
            lambda _r, wire: wire.answer(b"", 307, "text/plain", ("Location", target))
        ) as server:
            settings = PrometheusSettings(
                endpoint=f"http://127.0.0.1:{server.port}", token_file=str(tmp_path / "token")
            )
            told = refusal(Prometheus(settings))
    assert target in told
    assert other.requests == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            PrometheusSettings(endpoint="localhost"),
            (
                "the endpoint of Prometheus is 'localhost', but must be an address such as "
                "http://localhost:9090 or https://metrics.example.com/prometheus, without a user "
                "or a question mark"
            ),
        ),
        (
            PrometheusSettings(token_file="/no/such/file"),  # noqa: S106
            (
                "Prometheus at http://localhost:9090: /no/such/file is not readable: "
                "No such file or directory"
            ),
        ),
        (
            PrometheusSettings(endpoint="https://localhost", ca_file="/no/such/file"),
            (
                "Prometheus at https://localhost: /no/such/file cannot be read: "
                "No such file or directory"
            ),
        ),
    ],
)
def test_bad_settings(settings: PrometheusSettings, expected: str) -> None:
    assert refusal(Prometheus(settings, sleep=_never)) == expected


class TlsBed:
    """Files of one authority, and settings that use them."""

    def __init__(self, folder: Path) -> None:
        self.papers = Papers("127.0.0.1")
        self.authority = folder / "ca.pem"
        self.authority.write_bytes(self.papers.authority_data)
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        self.certificate.write_bytes(self.papers.client_certificate)
        self.key.write_bytes(self.papers.client_key)

    def settings(self, port: int, ca: str = "", certificate: str = "", key: str = "") -> Prometheus:
        return Prometheus(
            PrometheusSettings(
                endpoint=f"https://127.0.0.1:{port}",
                ca_file=ca,
                certificate_file=certificate,
                key_file=key,
            ),
            sleep=_never,
        )


@pytest.fixture
def tls(tmp_path: Path) -> TlsBed:
    return TlsBed(tmp_path)


def test_tls(tls: TlsBed) -> None:
    with serving(well, tls.papers.server_context()) as server:
        assert tls.settings(server.port, str(tls.authority)).query("up") == (ONE,)


def test_a_stranger_is_not_believed(tls: TlsBed) -> None:
    with serving(well, tls.papers.server_context()) as server:
        told = refusal(tls.settings(server.port))
    assert "its certificate is not believed: " in told
    assert server.requests == []


def test_another_name_is_not_believed(tls: TlsBed) -> None:
    other = Papers("prometheus.example.com")
    tls.authority.write_bytes(other.authority_data)
    with serving(well, other.server_context()) as server:
        told = refusal(tls.settings(server.port, str(tls.authority)))
    assert "its certificate is not believed: IP address mismatch" in told


def test_a_new_authority_is_found(tls: TlsBed) -> None:
    other = Papers("127.0.0.1")
    with serving(well, other.server_context()) as server:
        client = tls.settings(server.port, str(tls.authority))
        refusal(client)
        tls.authority.write_bytes(other.authority_data)
        assert client.query("up") == (ONE,)


def test_a_client_certificate(tls: TlsBed) -> None:
    context = tls.papers.server_context(client_needed=True)
    with serving(well, context) as server:
        shown = tls.settings(server.port, str(tls.authority), str(tls.certificate), str(tls.key))
        assert shown.query("up") == (ONE,)


def test_without_the_client_certificate_that_is_wanted(tls: TlsBed) -> None:
    """With TLS 1.3 the server says so only after our first words."""
    context = tls.papers.server_context(client_needed=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(well, context) as server:
        told = refusal(tls.settings(server.port, str(tls.authority)))
    assert "TLS failed: " in told


def test_plain_http_where_tls_is_wanted(tls: TlsBed) -> None:
    with serving(well) as server:
        told = refusal(tls.settings(server.port, str(tls.authority)))
    assert "TLS failed: " in told


@pytest.mark.parametrize("content", [b"", b"no certificate"])
def test_bad_authorities(tls: TlsBed, content: bytes) -> None:
    tls.authority.write_bytes(content)
    told = refusal(tls.settings(1, str(tls.authority)))
    assert f"{tls.authority} holds no certificate in PEM" in told


def test_a_bad_client_certificate(tls: TlsBed) -> None:
    tls.key.write_bytes(b"no key")
    told = refusal(tls.settings(1, str(tls.authority), str(tls.certificate), str(tls.key)))
    assert "the client certificate cannot be used: " in told


# Proxies. Loopback is never asked for through one, so the endpoint here is a name.


def test_a_proxy_is_asked_for_the_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(well) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pr0xypass@127.0.0.1:{proxy.port}")
        settings = PrometheusSettings(endpoint="http://prometheus.example:9090/p")
        assert Prometheus(settings).query("up") == (ONE,)
    (request,) = proxy.requests
    assert request.target == "http://prometheus.example:9090/p/api/v1/query"
    assert request.header("Proxy-Authorization").startswith("Basic ")


def test_no_proxy_spares(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(well) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", ".invalid")
        settings = PrometheusSettings(endpoint="http://prometheus.invalid:9090", retries=0)
        assert refusal(Prometheus(settings)).endswith("its name is not known")
    assert proxy.requests == []


def test_loopback_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(well) as server:
        assert Prometheus(settings_for(server.port)).query("up") == (ONE,)


def test_a_proxy_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    settings = PrometheusSettings(endpoint="http://prometheus.example:9090", retries=0)
    told = refusal(Prometheus(settings))
    assert told == "Prometheus at http://prometheus.example:9090: the proxy: Connection refused"


def test_a_tunnel_through_a_proxy(monkeypatch: pytest.MonkeyPatch, tls: TlsBed) -> None:
    papers = Papers("prometheus.example")
    tls.authority.write_bytes(papers.authority_data)
    with serving(well, papers.server_context()) as server, serving(_tunnel(server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        settings = PrometheusSettings(
            endpoint="https://prometheus.example:9090", ca_file=str(tls.authority)
        )
        assert Prometheus(settings).query("up") == (ONE,)
    assert [(each.method, each.target) for each in proxy.requests] == [
        ("CONNECT", "prometheus.example:9090")
    ]


def _tunnel(port: int) -> Answer:
    """A proxy that knows one server only."""

    def answer(_request: Request, wire: Wire) -> None:
        client = wire._connection
        with socket.create_connection(("127.0.0.1", port)) as server:
            wire.raw(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pour, args=(server, client))
            back.start()
            _pour(client, server)
            back.join()

    return answer


def _pour(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_refused_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(status(403)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        settings = PrometheusSettings(endpoint="https://prometheus.example", retries=0)
        told = refusal(Prometheus(settings))
    assert "the proxy: " in told
    assert "403" in told


def test_a_bad_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://me:pr0xypass@proxy:1080")
    told = refusal(Prometheus(PrometheusSettings(endpoint="http://prometheus.example")))
    assert "HTTP_PROXY is 'socks5://proxy:1080', but must be an HTTP proxy" in told
    assert "pr0xypass" not in told
