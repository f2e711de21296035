"""TLS, client certificates and proxies, over real sockets."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from slackwater.http.prometheus_client import PrometheusClient
from slackwater.settings.prometheus import PrometheusSettings
from tests.unit.http.prometheus_world import (
    ONE,
    clear_proxies,
    never,
    refusal,
    settings_for,
    status,
    well,
)
from tests.unit.kube.byte_server import Answer, Request, Wire, serving
from tests.unit.kube.certificates import Papers


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)


class TlsBed:
    """Files of one authority, and settings that use them."""

    def __init__(self, folder: Path) -> None:
        self.papers = Papers("127.0.0.1")
        self.authority = folder / "ca.pem"
        self.authority.write_bytes(self.papers.authority_data)
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        self.certificate.write_bytes(self.papers.client_certificate)
        self.key.write_bytes(self.papers.client_key)

    def settings(
        self, port: int, ca: str = "", certificate: str = "", key: str = ""
    ) -> PrometheusClient:
        return PrometheusClient(
            PrometheusSettings(
                endpoint=f"https://127.0.0.1:{port}",
                ca_file=ca,
                certificate_file=certificate,
                key_file=key,
            ),
            sleep=never,
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
    """Servers answer a greeting in TLS with words in HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        told = refusal(tls.settings(listener.getsockname()[1], str(tls.authority)))
        thread.join()
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
        assert PrometheusClient(settings).query("up") == (ONE,)
    (request,) = proxy.requests
    assert request.target == "http://prometheus.example:9090/p/api/v1/query"
    assert request.header("Proxy-Authorization").startswith("Basic ")


def test_no_proxy_spares(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(well) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", ".invalid")
        settings = PrometheusSettings(endpoint="http://prometheus.invalid:9090", retries=0)
        assert refusal(PrometheusClient(settings)).endswith("its name is not known")
    assert proxy.requests == []


def test_loopback_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(well) as server:
        assert PrometheusClient(settings_for(server.port)).query("up") == (ONE,)


def test_a_proxy_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    settings = PrometheusSettings(endpoint="http://prometheus.example:9090", retries=0)
    told = refusal(PrometheusClient(settings))
    assert told == (
        "Prometheus at http://prometheus.example:9090: through the proxy 127.0.0.1:1: "
        "Connection refused"
    )


def test_a_tunnel_through_a_proxy(monkeypatch: pytest.MonkeyPatch, tls: TlsBed) -> None:
    papers = Papers("prometheus.example")
    tls.authority.write_bytes(papers.authority_data)
    with serving(well, papers.server_context()) as server, serving(_tunnel(server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        settings = PrometheusSettings(
            endpoint="https://prometheus.example:9090", ca_file=str(tls.authority)
        )
        assert PrometheusClient(settings).query("up") == (ONE,)
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
        told = refusal(PrometheusClient(settings))
    assert told.endswith(
        f"through the proxy 127.0.0.1:{proxy.port}: Tunnel connection failed: 403 Whatever"
    )


def test_a_bad_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://me:pr0xypass@proxy:1080")
    told = refusal(PrometheusClient(PrometheusSettings(endpoint="http://prometheus.example")))
    assert "HTTP_PROXY is 'socks5://proxy:1080', but must be an HTTP proxy" in told
    assert "pr0xypass" not in told
