"""Whom we believe and what we show, over real TLS; and through a real CONNECT."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.http.endpoint import Identity, Proxy, Server, Trust
from slackwater.http.errors import CredentialsError, RequestError, UnreachableError
from slackwater.http.tls import TlsContexts
from slackwater.kube.access import Access, FixedCredentials
from slackwater.kube.client import Client
from tests.unit.kube.accesses import AGENT
from tests.unit.kube.byte_server import ByteServer, Request, Wire, serving
from tests.unit.kube.certificates import Papers


@pytest.fixture(scope="module")
def papers() -> Papers:
    return Papers()


@pytest.fixture(scope="module")
def strangers() -> Papers:
    return Papers("api.example.com")


def ok(_request: Request, wire: Wire) -> None:
    wire.answer(b"fine", kind="text/plain")


def ask(
    port: int, trust: Trust, identity: Identity | None = None, proxy: Proxy | None = None
) -> bytes:
    credentials = FixedCredentials(identity or Identity())
    access = Access(Server("127.0.0.1", port), trust, credentials, proxy)
    client = Client(access, AGENT, timeout=30.0)
    try:
        return client.get_raw("/version")
    finally:
        client.close()


@pytest.fixture
def secure(papers: Papers) -> Iterator[ByteServer]:
    with serving(ok, papers.server_context()) as server:
        yield server


def test_an_authority_in_data_or_in_a_file(
    secure: ByteServer, papers: Papers, tmp_path: Path
) -> None:
    assert ask(secure.port, Trust(authority_data=papers.authority_data)) == b"fine"
    (tmp_path / "ca.crt").write_bytes(papers.authority_data)
    assert ask(secure.port, Trust(authority_file=str(tmp_path / "ca.crt"))) == b"fine"


def test_anybody_where_that_was_asked_for(secure: ByteServer) -> None:
    assert ask(secure.port, Trust(unchecked=True)) == b"fine"


@pytest.mark.parametrize("known", [False, True], ids=["the machine's own", "another"])
def test_a_strangers_certificate_is_not_believed(
    secure: ByteServer, strangers: Papers, known: bool
) -> None:
    trust = Trust(authority_data=strangers.authority_data if known else b"")
    sentence = "its certificate is not believed: (unable to get local issuer|self.signed)"
    with pytest.raises(UnreachableError, match=sentence):
        ask(secure.port, trust)


def test_another_name_is_not_believed_unless_it_is_asked_for(strangers: Papers) -> None:
    with serving(ok, strangers.server_context()) as server:
        with pytest.raises(UnreachableError, match="IP address mismatch"):
            ask(server.port, Trust(authority_data=strangers.authority_data))
        trust = Trust(authority_data=strangers.authority_data, server_name="api.example.com")
        assert ask(server.port, trust) == b"fine"


def test_a_client_certificate_is_shown(papers: Papers) -> None:
    trust = Trust(authority_data=papers.authority_data)
    shown = Identity("", papers.client_certificate, papers.client_key)
    with serving(ok, papers.server_context(client_needed=True)) as server:
        assert ask(server.port, trust, shown) == b"fine"
        with pytest.raises(UnreachableError):
            ask(server.port, trust)


def test_another_certificate_is_another_connection(papers: Papers) -> None:
    """As a plugin gives them: a certificate belongs to a connection, a token to a request."""

    class Changing:
        def __init__(self) -> None:
            self.shown = Identity("Bearer one", papers.client_certificate, papers.client_key)

        def identity(self) -> Identity:
            return self.shown

        def renew(self, refused: Identity) -> bool:
            return refused != self.shown

    with serving(ok, papers.server_context(client_needed=True)) as server:
        trust, credentials = Trust(authority_data=papers.authority_data), Changing()
        client = Client(Access(Server("127.0.0.1", server.port), trust, credentials), AGENT)
        client.get_raw("/version")
        credentials.shown = Identity("Bearer two", papers.client_certificate, papers.client_key)
        client.get_raw("/version")
        assert server.connections == 1
        newer = papers.client_certificate + b"\n"
        credentials.shown = Identity("Bearer two", newer, papers.client_key)
        client.get_raw("/version")
        assert server.connections == 2
        client.close()


def test_no_key_stays_in_a_file(papers: Papers) -> None:
    """Neither on a disk nor as an open descriptor."""
    before = set(os.listdir("/proc/self/fd"))
    shown = Identity("", papers.client_certificate, papers.client_key)
    TlsContexts(Trust(authority_data=papers.authority_data)).context(shown)
    assert set(os.listdir("/proc/self/fd")) <= before


LOCKED = b"""-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAguvDXgKx5zHwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDjHQ7kYDOB5oxIhNGS7jRQEgZCK
-----END ENCRYPTED PRIVATE KEY-----
"""


@pytest.mark.parametrize("key", [b"", b"nonsense", LOCKED], ids=["none", "nonsense", "locked"])
def test_a_certificate_that_cannot_be_used_is_told(key: bytes, papers: Papers) -> None:
    """And nobody is asked for a passphrase on the terminal."""
    contexts = TlsContexts(Trust(authority_data=papers.authority_data))
    with pytest.raises(CredentialsError, match="the client certificate cannot be used: "):
        contexts.context(Identity("", papers.client_certificate, key))


@pytest.mark.parametrize("data", [b"nonsense", b"\xff", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_an_authority_that_is_none_is_told(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(
        RequestError, match="certificate-authority-data holds no certificate in PEM"
    ):
        TlsContexts(Trust(authority_data=data)).context(Identity())
    (tmp_path / "ca.crt").write_bytes(data)
    with pytest.raises(RequestError, match=r"ca\.crt holds no certificate in PEM"):
        TlsContexts(Trust(authority_file=str(tmp_path / "ca.crt"))).context(Identity())


def test_a_missing_authority_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"none cannot be read: No such file or directory"):
        TlsContexts(Trust(authority_file=str(tmp_path / "none"))).context(Identity())


def test_a_context_is_kept_until_something_changes(papers: Papers, tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(papers.authority_data)
    contexts = TlsContexts(Trust(authority_file=str(path)))
    shown = Identity("Bearer one", papers.client_certificate, papers.client_key)
    first = contexts.context(shown)
    other_token = Identity("Bearer two", papers.client_certificate, papers.client_key)
    assert contexts.context(other_token) is first
    assert contexts.context(Identity()) is not first
    second = contexts.context(shown)
    path.write_bytes(papers.authority_data + b"\n")
    assert contexts.context(shown) is not second


def test_a_rotated_authority_is_believed(papers: Papers, strangers: Papers, tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(strangers.authority_data)
    with serving(ok, papers.server_context()) as server:
        access = Access(
            Server("127.0.0.1", server.port),
            Trust(authority_file=str(path)),
            FixedCredentials(Identity()),
        )
        client = Client(access, AGENT)
        with pytest.raises(UnreachableError, match="not believed"):
            client.get_raw("/version")
        path.write_bytes(strangers.authority_data + papers.authority_data)
        assert client.get_raw("/version") == b"fine"
        client.close()


def test_a_server_without_tls_is_told(papers: Papers) -> None:
    """It takes the greeting of TLS for a request, and says at once what it thinks of that."""
    trust = Trust(authority_data=papers.authority_data)

    def answer_plainly(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_plainly, args=(listener,))
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(UnreachableError, match=f"https://127.0.0.1:{port}: "):
            ask(port, trust)
        thread.join()


class Carrier:
    """An HTTP proxy that carries what comes, if it may."""

    def __init__(self, status: str = "200 Connection established") -> None:
        self._status = status
        self.asked: list[list[str]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(20)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as stream:
                lines = list(iter(lambda: stream.readline().decode().strip(), ""))
                self.asked.append(lines)
                connection.sendall(f"HTTP/1.1 {self._status}\r\n\r\n".encode())
                if not self._status.startswith("200"):
                    return
                host, _, port = lines[0].split()[1].rpartition(":")
                with socket.create_connection((host, int(port)), 20) as target:
                    back = threading.Thread(target=_carry, args=(target, connection), daemon=True)
                    back.start()
                    _carry(connection, target)
                    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def test_through_a_proxy(secure: ByteServer, papers: Papers) -> None:
    """TLS goes from end to end: the proxy sees nothing but a name."""
    carrier = Carrier()
    trust = Trust(authority_data=papers.authority_data)
    proxy = Proxy("127.0.0.1", carrier.port, "Basic bWU6eA==")
    assert ask(secure.port, trust, Identity("Bearer secret"), proxy) == b"fine"
    carrier.close()
    ((first, *headers),) = carrier.asked
    assert first.startswith(f"CONNECT 127.0.0.1:{secure.port} HTTP/1.")
    assert "Proxy-Authorization: Basic bWU6eA==" in headers
    assert not any("secret" in line for line in headers)
    (request,) = secure.requests
    assert request.header("authorization") == "Bearer secret"
    assert request.header("host") == f"127.0.0.1:{secure.port}"
    assert request.header("proxy-authorization") == ""


def test_a_proxy_that_refuses_is_told(secure: ByteServer, papers: Papers) -> None:
    carrier = Carrier("407 Proxy Authentication Required")
    proxy = Proxy("127.0.0.1", carrier.port)
    sentence = f"through the proxy 127.0.0.1:{carrier.port}: .*407 Proxy Authentication Required"
    with pytest.raises(UnreachableError, match=sentence):
        ask(secure.port, Trust(authority_data=papers.authority_data), None, proxy)
    carrier.close()


def test_headers_that_come_twice_are_sent_twice() -> None:
    with serving(ok) as server:
        access = Access(
            Server("127.0.0.1", server.port, "http", "/prefix"),
            Trust(),
            FixedCredentials(Identity()),
            headers=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
        )
        client = Client(access, AGENT)
        client.get_raw("/version")
        client.close()
        (request,) = server.requests
    assert request.target == "/prefix/version"
    assert request.header("impersonate-group") == "a, b"
