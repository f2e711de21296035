"""A connection to Kafka's brokers by kafka-python: opened, asked, and closed whatever happens.

Owns what is spoken (TLS, SASL), how long all of it may take, what is asked twice, and that the
library is silent: of its log only why a connection failed is kept, for the one sentence. Knows
nothing of lag. Kerberos, OAuth and proxies are not here.
"""

import logging
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from slackwater.settings.rebalancer import KafkaAccess, KafkaProtocol

Answer = TypeVar("Answer")
NOT_INSTALLED = (
    "a broker is asked with kafka-python, which is not installed: pip install 'slackwater[kafka]', "
    "or name no bootstrap servers and have the lag from Prometheus"
)
#: One request may take so much of the whole: a broker that is silent leaves time for another.
_REQUEST_SHARE = 0.25
_PAUSE_SECONDS = 0.2
_LONGEST_WORDS = 200
_FAILED = re.compile(r"Bootstrap connection to \S+ failed: (.*) \(backoff", re.DOTALL)
_REFUSED = "AuthenticationFailed"
#: A name, an IPv4 address, or an IPv6 address in brackets.
_SERVER = re.compile(r"(?:[^\s:/\[\],]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_HIGHEST_PORT = 65535
_TLS = (KafkaProtocol.SSL, KafkaProtocol.SASL_SSL)
_SASL = (KafkaProtocol.SASL_PLAINTEXT, KafkaProtocol.SASL_SSL)


class BrokerError(Exception):
    """One sentence for the person."""


class BrokerUnreachableError(BrokerError):
    """There was no connection, all of the time long: no other question would fare better."""


class Admin(Protocol):
    """Of kafka.KafkaAdminClient what is used here; the library has no types of its own."""

    def list_group_offsets(self, group_specs: Mapping[str, None]) -> dict[str, dict[Any, Any]]: ...
    def describe_groups(self, group_ids: list[str]) -> dict[str, dict[str, Any]]: ...
    def list_groups(self) -> list[dict[str, Any]]: ...
    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]: ...
    def list_partition_offsets(
        self, topic_partition_specs: Mapping[Any, object]
    ) -> dict[Any, Any]: ...
    def close(self) -> None: ...


class BrokerClient:
    """Guards one connection, and the moment when whoever asks wants to hear no more."""

    def __init__(self, admin: Admin, deadline: float) -> None:
        self._admin = admin
        self._deadline = deadline

    def ask(self, question: Callable[[Admin], Answer]) -> Answer:
        """Brokers that are just starting or handing over are asked again."""
        from kafka.errors import KafkaTimeoutError, RetriableError

        while True:
            try:
                return question(self._admin)
            except RetriableError as error:
                if time.monotonic() + _PAUSE_SECONDS >= self._deadline:
                    raise KafkaTimeoutError(shortened(error)) from error
            time.sleep(_PAUSE_SECONDS)


@contextmanager
def connected(
    servers: tuple[str, ...], access: KafkaAccess, timeout: float
) -> Iterator[BrokerClient]:
    """For so many seconds at most. BrokerError for all that goes wrong, inside as well."""
    deadline = time.monotonic() + timeout
    check_servers(servers)
    named = ", ".join(servers)
    with _silenced() as last_words:
        try:
            from kafka.errors import KafkaError, KafkaTimeoutError
        except ImportError as error:
            raise BrokerError(NOT_INSTALLED) from error
        late: type[BrokerError] = BrokerUnreachableError
        try:
            admin = _admin(servers, security(access), timeout)
            late = BrokerError
            try:
                yield BrokerClient(admin, deadline)
            finally:
                admin.close()
        except KafkaTimeoutError as error:
            why = last_words.why or shortened(error)
            told = f"no broker at {named} answers within {timeout:g} s: {why}"
            raise late(told) from error
        except (KafkaError, OSError, ValueError) as error:
            raise BrokerError(f"the broker at {named}: {shortened(error)}") from error


def check_servers(servers: tuple[str, ...]) -> None:
    """The library would find it out half-way, and leave sockets behind."""
    for server in servers:
        if not _SERVER.fullmatch(server) or int(server.rpartition(":")[2]) > _HIGHEST_PORT:
            raise BrokerError(f"the bootstrap server {server!r} is not host:port")


def security(access: KafkaAccess) -> dict[str, Any]:
    """What the library is told of it; BrokerError where a file cannot be read."""
    options: dict[str, Any] = {"security_protocol": access.protocol.value}
    if access.protocol in _TLS:
        options["ssl_context"] = _context(access)
    if access.protocol in _SASL:
        options["sasl_mechanism"] = access.mechanism.value
        options["sasl_plain_username"] = access.username
        options["sasl_plain_password"] = _password(access.password_file)
    return options


def shortened(error: BaseException) -> str:
    """Some of the library's errors quote whole requests, and the system's the path once more."""
    said = error.strerror if isinstance(error, OSError) else None
    return _in_short(said or str(error)) or type(error).__name__


def _in_short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]} ..."


def _admin(servers: tuple[str, ...], options: dict[str, Any], timeout: float) -> Admin:
    """Where its constructor fails, the library leaves a thread and a socket behind: the resident
    loop would gather them, so the client below it is kept to be closed."""
    from kafka import KafkaAdminClient

    request_ms = max(1, int(1000 * timeout * _REQUEST_SHARE))
    begun: list[Any] = []

    def begin(**configuration: object) -> object:
        configuration["socket_connection_setup_timeout_ms"] = request_ms
        begun.append(KafkaAdminClient.DEFAULT_CONFIG["kafka_client"](**configuration))
        return begun[-1]

    try:
        admin: Admin = KafkaAdminClient(
            bootstrap_servers=list(servers),
            client_id="slackwater",
            request_timeout_ms=request_ms,
            bootstrap_timeout_ms=max(1, int(1000 * timeout)),
            kafka_client=begin,
            **options,
        )
    except BaseException:
        for client in begun:
            client.close()
        raise
    return admin


def _context(access: KafkaAccess) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None)
    except OSError as error:
        raise BrokerError(f"the CA file {access.ca_file}: {shortened(error)}") from error
    if access.certificate_file:
        try:
            context.load_cert_chain(access.certificate_file, access.key_file or None)
        except OSError as error:
            raise BrokerError(
                f"the certificate {access.certificate_file}: {shortened(error)}"
            ) from error
    return context


def _password(path: str) -> str:
    """Without the end of line that editors leave."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokerError(f"the password file {path}: {shortened(error)}") from error


class _LastWords(logging.Handler):
    """Guards why the last connection failed: the library's exception does not say it. A refused
    password is not forgotten for what came after: some attempts are cut before they hear it."""

    why = ""

    def emit(self, record: logging.LogRecord) -> None:
        found = _FAILED.match(record.getMessage())
        if found and _REFUSED not in self.why:
            self.why = _in_short(found.group(1))


@contextmanager
def _silenced() -> Iterator[_LastWords]:
    """Whatever handlers the program has: they would show a line for each attempt."""
    logger, words = logging.getLogger("kafka"), _LastWords()
    before = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(words)
    try:
        yield words
    finally:
        logger.removeHandler(words)
        logger.propagate = before[0]
        logger.setLevel(before[1])
