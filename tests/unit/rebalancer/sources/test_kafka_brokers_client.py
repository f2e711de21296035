"""Connections that fail, in every way that can be had without a broker; and what is told of TLS."""

import builtins
import gc
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from slackwater.rebalancer.sources.kafka_brokers import (
    NOT_INSTALLED,
    BrokerError,
    BrokerUnreachableError,
    check_servers,
    connected,
    security,
    shortened,
)
from slackwater.settings.rebalancer import KafkaAccess, KafkaProtocol, SaslMechanism

#: kafka-python leaves the sockets of failed connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
SOON = 1.0


@pytest.fixture
def collected() -> Iterator[None]:
    """Here, where it is no error."""
    yield
    gc.collect()


@pytest.fixture
def listening() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """A server that does one thing to whoever calls; its address."""
    servers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(server: socket.socket, treat: Callable[[socket.socket], None]) -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            with caller:
                treat(caller)

    def listen(treat: Callable[[socket.socket], None]) -> str:
        servers.append(socket.create_server(("127.0.0.1", 0)))
        threads.append(threading.Thread(target=serve, args=(servers[-1], treat)))
        threads[-1].start()
        return "{}:{}".format(*servers[-1].getsockname())

    yield listen
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join()


def failure(
    *servers: str,
    access: KafkaAccess | None = None,
    timeout: float = SOON,
    kind: type[BrokerError] = BrokerError,
) -> str:
    with (
        pytest.raises(kind) as caught,
        connected(servers, access or KafkaAccess(), timeout),
    ):
        pytest.fail("it is connected")
    return str(caught.value)


def hang_up(caller: socket.socket) -> None:
    """At once."""


def say_nothing(caller: socket.socket) -> None:
    while caller.recv(4096):
        pass


def speak_http(caller: socket.socket) -> None:
    caller.recv(4096)
    caller.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("treat", [hang_up, say_nothing, speak_http])
@pytest.mark.usefixtures("collected")
def test_what_is_no_broker_is_one_sentence_in_time(
    listening: Callable[[Callable[[socket.socket], None]], str],
    treat: Callable[[socket.socket], None],
) -> None:
    address = listening(treat)
    before = threading.active_count()
    said = failure(address, kind=BrokerUnreachableError)
    assert said.startswith(f"no broker at {address} answers within 1 s: ")
    assert "\n" not in said
    assert threading.active_count() == before


@pytest.mark.usefixtures("collected")
def test_nobody_there() -> None:
    assert failure("127.0.0.1:1", kind=BrokerUnreachableError) == (
        "no broker at 127.0.0.1:1 answers within 1 s: KafkaConnectionError: 111 ECONNREFUSED"
    )


@pytest.mark.usefixtures("collected")
def test_all_servers_are_named() -> None:
    assert failure("127.0.0.1:1", "127.0.0.1:2").startswith(
        "no broker at 127.0.0.1:1, 127.0.0.1:2 answers within 1 s: "
    )


@pytest.mark.usefixtures("collected")
def test_tls_to_one_that_speaks_plainly(
    listening: Callable[[Callable[[socket.socket], None]], str],
) -> None:
    said = failure(listening(speak_http), access=KafkaAccess(KafkaProtocol.SSL))
    assert "Handshake failed" in said


@pytest.mark.usefixtures("collected")
def test_the_library_says_nothing_and_its_logger_is_put_back(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler()])
    logger = logging.getLogger("kafka")
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    before = (logger.level, logger.propagate, list(logger.handlers))
    failure("127.0.0.1:1")
    assert capfd.readouterr() == ("", "")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_without_the_library_it_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_kafka(name: str, *rest: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "kafka":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_kafka)
    assert failure("127.0.0.1:1") == NOT_INSTALLED
    assert "pip install '.[kafka]' in Slackwater's source" in NOT_INSTALLED


@pytest.mark.parametrize(
    "server",
    ["a:1", "a.b-c_d:9092", "127.0.0.1:65535", "[::1]:9092", "[fe80::1]:1", "kafka:0"],
)
def test_servers(server: str) -> None:
    check_servers((server, server))


@pytest.mark.parametrize(
    "server",
    ["", "a", "a:", ":9092", "a:b", "a:65536", "a:123456", "a b:1", "http://a:1", "::1:9092",
     "[::1", "[::1]", "a:1,b:2", "a:-1", "a:1\n"],
)  # fmt: skip
def test_what_is_no_server_is_told_before_anything_is_opened(server: str) -> None:
    assert failure("a:1", server) == f"the bootstrap server {server!r} is not host:port"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("it is so", "it is so"),
        ("two\n  lines", "two lines"),
        ("", "ValueError"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + " ..."),
    ],
)
def test_long_words_are_shortened(said: str, expected: str) -> None:
    assert shortened(ValueError(said)) == expected


class TestSecurity:
    @pytest.fixture
    def files(self, tmp_path: Path) -> None:
        made = trustme.CA()
        made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        issued = made.issue_cert("client")
        issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "client.pem"))
        (tmp_path / "password").write_text("open sesame\n")

    def test_plain(self) -> None:
        assert security(KafkaAccess()) == {"security_protocol": "PLAINTEXT"}

    @pytest.mark.parametrize("mechanism", SaslMechanism)
    @pytest.mark.usefixtures("files")
    def test_a_name_and_a_password(self, tmp_path: Path, mechanism: SaslMechanism) -> None:
        access = KafkaAccess(
            KafkaProtocol.SASL_PLAINTEXT,
            mechanism=mechanism,
            username="reader",
            password_file=str(tmp_path / "password"),
        )
        assert security(access) == {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism.value,
            "sasl_plain_username": "reader",
            "sasl_plain_password": "open sesame",
        }

    def test_tls_believes_whom_the_machine_believes(self) -> None:
        options = security(KafkaAccess(KafkaProtocol.SSL))
        context = options["ssl_context"]
        assert isinstance(context, ssl.SSLContext)
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert options.keys() == {"security_protocol", "ssl_context"}

    @pytest.mark.usefixtures("files")
    def test_tls_with_one_s_own_certificates(self, tmp_path: Path) -> None:
        access = KafkaAccess(
            KafkaProtocol.SSL,
            ca_file=str(tmp_path / "ca.pem"),
            certificate_file=str(tmp_path / "client.pem"),
            key_file=str(tmp_path / "key.pem"),
        )
        [trusted] = security(access)["ssl_context"].get_ca_certs()
        assert trusted["subject"] == trusted["issuer"]

    @pytest.mark.parametrize(
        ("access", "sentence"),
        [
            (
                KafkaAccess(KafkaProtocol.SSL, ca_file="/nowhere/ca"),
                "the CA file /nowhere/ca: No such file or directory",
            ),
            (
                KafkaAccess(KafkaProtocol.SSL, certificate_file="/nowhere/client"),
                "the certificate /nowhere/client: No such file or directory",
            ),
            (
                KafkaAccess(KafkaProtocol.SASL_SSL, password_file="/nowhere/password"),  # noqa: S106
                "the password file /nowhere/password: No such file or directory",
            ),
        ],
    )
    def test_files_that_are_not_there(self, access: KafkaAccess, sentence: str) -> None:
        assert failure("a:1", access=access) == sentence

    def test_files_that_are_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no certificate")
        path = str(tmp_path / "file")
        for access, start in (
            (KafkaAccess(KafkaProtocol.SSL, ca_file=path), "the CA file"),
            (KafkaAccess(KafkaProtocol.SSL, certificate_file=path), "the certificate"),
        ):
            assert failure("a:1", access=access).startswith(f"{start} {path}: ")

    def test_a_password_that_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"\xff\xfe")
        access = KafkaAccess(KafkaProtocol.SASL_PLAINTEXT, password_file=str(tmp_path / "file"))
        assert failure("a:1", access=access).startswith(f"the password file {tmp_path}/file: ")
