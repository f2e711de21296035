"""Reads the lag of a consumer group from Kafka's brokers, with kafka-python (extra `kafka`).

Reads what the group has committed, its members, and the first and last offset of every partition of
its topics, including those without a commit. Commits nothing, joins no group, creates no topic.
Last offsets are high watermarks, as kafka-consumer-groups.sh counts them: messages of open
transactions are included. One timeout bounds all of it, and any failure is a Gap with one sentence.
The library's log is silenced; only why a connection failed is taken from it. Kerberos, OAuth and
proxies are not supported.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Lag, aggregate_lag, partition_lag
from slackwater.rebalancer.reason import counted
from slackwater.settings.rebalancer import KafkaAccess, KafkaProtocol, KafkaSettings

if TYPE_CHECKING:
    import ssl

Result = TypeVar("Result")
NOT_INSTALLED = (
    "a broker is asked with kafka-python, which is not installed: pip install '.[kafka]' in "
    "Slackwater's source, or name no bootstrap servers and have the lag from Prometheus"
)
#: The part of the timeout for one request: a silent broker leaves time for another.
_REQUEST_SHARE = 0.25
_PAUSE_SECONDS = 0.2
_LONGEST_WORDS = 200
_FAILED = re.compile(r"Bootstrap connection to (\S+) failed: (.*) \(backoff", re.DOTALL)
#: What another attempt with the same settings would not change.
_FINAL = ("AuthenticationFailed", "certificate verify failed")
#: A name, an IPv4 address, or an IPv6 address in brackets.
_SERVER = re.compile(r"(?:[^\s:/\[\],]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_HIGHEST_PORT = 65535
_TLS = (KafkaProtocol.SSL, KafkaProtocol.SASL_SSL)
_SASL = (KafkaProtocol.SASL_PLAINTEXT, KafkaProtocol.SASL_SSL)


class BrokerError(Exception):
    """str() is one sentence."""


class BrokerUnreachableError(BrokerError):
    """No connection within the whole timeout: another request would fail as well."""


class KafkaAdmin(Protocol):
    """The part of kafka.KafkaAdminClient that is needed; the library is not typed."""

    def list_group_offsets(self, group_specs: Mapping[str, None]) -> dict[str, dict[Any, Any]]: ...
    def describe_groups(self, group_ids: list[str]) -> dict[str, dict[str, Any]]: ...
    def list_groups(self) -> list[dict[str, Any]]: ...
    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]: ...
    def list_partition_offsets(
        self, topic_partition_specs: Mapping[Any, object]
    ) -> dict[Any, Any]: ...
    def close(self) -> None: ...


class BrokerClient:
    """Guards one connection and its deadline."""

    def __init__(self, admin: KafkaAdmin, deadline: float) -> None:
        self._admin = admin
        self._deadline = deadline

    def ask(self, question: Callable[[KafkaAdmin], Result]) -> Result:
        """Retries while brokers are starting or handing over."""
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
    """Open for `timeout` seconds at most. Any failure, inside as well, becomes a BrokerError."""
    deadline = time.monotonic() + timeout
    check_servers(servers)
    named = ", ".join(servers)
    with _silenced(named, len(servers)) as failures:
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
            why = failures.why or shortened(error)
            told = f"no broker at {named} answers within {timeout:g} s: {why}"
            raise late(told) from error
        except (KafkaError, OSError, ValueError) as error:
            raise BrokerError(f"the broker at {named}: {shortened(error)}") from error


def check_servers(servers: tuple[str, ...]) -> None:
    """Checked first: the library would fail half-way and leave sockets behind."""
    for server in servers:
        if not _SERVER.fullmatch(server) or int(server.rpartition(":")[2]) > _HIGHEST_PORT:
            raise BrokerError(f"the bootstrap server {server!r} is not host:port")


def security(access: KafkaAccess) -> dict[str, Any]:
    """The library's options. Raises BrokerError if a file cannot be read."""
    options: dict[str, Any] = {"security_protocol": access.protocol.value}
    if access.protocol in _TLS:
        options["ssl_context"] = _context(access)
    if access.protocol in _SASL:
        options["sasl_mechanism"] = access.mechanism.value
        options["sasl_plain_username"] = access.username
        options["sasl_plain_password"] = _password(access.password_file)
    return options


def shortened(error: BaseException) -> str:
    """Some of the library's errors quote whole requests, and OSErrors repeat the path."""
    said = error.strerror if isinstance(error, OSError) else None
    return _in_short(said or str(error)) or type(error).__name__


def _in_short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]} ..."


def _admin(servers: tuple[str, ...], options: dict[str, Any], timeout: float) -> KafkaAdmin:
    """If its constructor fails, the library leaks a thread and a socket, which would pile up in a
    resident loop. So the client below it is kept, to be closed."""
    from kafka import KafkaAdminClient

    request_ms = max(1, int(1000 * timeout * _REQUEST_SHARE))
    begun: list[Any] = []

    def begin(**configuration: object) -> object:
        configuration["socket_connection_setup_timeout_ms"] = request_ms
        begun.append(KafkaAdminClient.DEFAULT_CONFIG["kafka_client"](**configuration))
        return begun[-1]

    try:
        admin: KafkaAdmin = KafkaAdminClient(
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


def _context(access: KafkaAccess) -> "ssl.SSLContext":
    import ssl

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
    """Without the trailing newline that editors leave."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokerError(f"the password file {path}: {shortened(error)}") from error


class ConnectionFailures(logging.Handler):
    """Keeps why the last connection failed, which the library's exception does not say; a refusal
    for good counts more than later failures. When every server has refused for good, it ends the
    library's attempts, which would go on until the timeout: a wrong password that is sent again and
    again may lock the account."""

    def __init__(self, named: str, servers: int) -> None:
        super().__init__()
        self.why = ""
        self._named, self._servers = named, servers
        self._refusing: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        found = _FAILED.match(record.getMessage())
        if not found:
            return
        server, why = found.group(1), _in_short(found.group(2))
        is_final = any(words in why for words in _FINAL)
        if is_final or not self._refusing:
            self.why = why
        if is_final:
            self._refusing.add(server)
            if len(self._refusing) >= self._servers:
                raise BrokerError(f"the broker at {self._named}: {self.why}")


@contextmanager
def _silenced(named: str, servers: int) -> Iterator[ConnectionFailures]:
    """Otherwise the program's handlers would print a line for each attempt."""
    logger, failures = logging.getLogger("kafka"), ConnectionFailures(named, servers)
    before = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    logger.addHandler(failures)
    try:
        yield failures
    finally:
        logger.removeHandler(failures)
        logger.propagate = before[0]
        logger.setLevel(before[1])


#: Kafka's error codes (kafka.apache.org/protocol: errors).
_UNKNOWN_TOPIC = 3
_UNKNOWN_GROUP_STATE = "Dead"
#: Of a classic group; a group of the newer protocol moves partitions one by one and has no such.
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")
_Partition = tuple[str, int]


class ConsumerGroup(msgspec.Struct, frozen=True):
    """`topics` are those that its members subscribe to or are assigned, `state` is Kafka's, and
    `static_members` counts members with a group.instance.id."""

    committed: Mapping[_Partition, int]
    topics: frozenset[str]
    state: str
    static_members: int


class Brokers:
    """Remembers for one round which brokers were unreachable: the next group would wait as long for
    the same ones."""

    def __init__(self) -> None:
        self._silent: dict[tuple[tuple[str, ...], KafkaAccess], Gap] = {}

    def read_lag(self, settings: KafkaSettings, group: str, timeout: float) -> Lag | Gap:
        """`timeout` is in seconds and bounds all of it."""
        whom = settings.bootstrap_servers, settings.access
        if whom in self._silent:
            return self._silent[whom]
        try:
            with connected(*whom, timeout) as client:
                return _lag(client, settings, group)
        except BrokerUnreachableError as error:
            return self._silent.setdefault(whom, Gap(str(error)))
        except BrokerError as error:
            return Gap(str(error))


def read_lag(settings: KafkaSettings, group: str, timeout: float) -> Lag | Gap:
    """For one group, without memory."""
    return Brokers().read_lag(settings, group, timeout)


def _lag(client: BrokerClient, settings: KafkaSettings, group: str) -> Lag | Gap:
    seen = read_group(client, group)
    where = ", ".join(settings.bootstrap_servers)
    if isinstance(seen, Gap):
        return Gap(f"{seen.reason} at {where}")
    partitions = _partitions(client, settings.topic, group, seen)
    if isinstance(partitions, Gap):
        return partitions
    spans = _spans(client, partitions)
    lags = [partition_lag(seen.committed.get(each), *span) for each, span in spans.items()]
    unsettled = f"its state is {seen.state}" if seen.state in _REBALANCING else ""
    source = f"broker {where}, {counted(len(lags), 'partition')}"
    return Lag(aggregate_lag(lags, settings.aggregate), source, unsettled, seen.static_members)


def read_group(client: BrokerClient, group: str) -> ConsumerGroup | Gap:
    """A group that does not exist would look like one that never committed, so that is checked."""
    offsets = client.ask(lambda admin: admin.list_group_offsets({group: None}))[group]
    committed = {(p.topic, p.partition): o.offset for p, o in offsets.items() if o.offset >= 0}
    described = client.ask(lambda admin: admin.describe_groups([group]))[group]
    state = str(described["group_state"])
    if not committed and state == _UNKNOWN_GROUP_STATE and not _is_listed(client, group):
        return Gap(f"there is no consumer group {group}")
    members = described["members"]
    topics = frozenset(topic for member in members for topic in _topics_of(member))
    static = sum(bool(member.get("group_instance_id")) for member in members)
    return ConsumerGroup(committed, topics, state, static)


def _is_listed(client: BrokerClient, group: str) -> bool:
    """Describing a group of the newer protocol as a classic one says that it is dead."""
    listed = client.ask(lambda admin: admin.list_groups())
    return any(one["group_id"] == group for one in listed)


def _topics_of(member: Mapping[str, Any]) -> Iterator[str]:
    """What the library could not decode is bytes, and is skipped."""
    subscription, assignment = member["member_metadata"], member["member_assignment"]
    if isinstance(subscription, Mapping):
        yield from subscription["topics"]
    if isinstance(assignment, Mapping):
        yield from (one["topic"] for one in assignment["assigned_partitions"])


def _partitions(
    client: BrokerClient, topic: str, group: str, seen: ConsumerGroup
) -> list[_Partition] | Gap:
    """Of the given topic, else of all topics of the group. Of the latter, those that were deleted
    are skipped: there is nothing left to read."""
    topics = {topic} if topic else seen.topics | {name for name, _ in seen.committed}
    if not topics:
        return Gap(
            f"consumer group {group} has neither committed offsets nor topics; name its topic"
        )
    found: list[_Partition] = []
    for one in client.ask(lambda admin: admin.describe_topics(sorted(topics))):
        if one["error_code"] == _UNKNOWN_TOPIC and not topic:
            continue
        if one["error_code"]:
            return Gap(_cannot_have(one["name"], one["error_code"]))
        for each in one["partitions"]:
            if each["leader_id"] < 0:
                return Gap(
                    f"partition {each['partition_index']} of topic {one['name']} has no leader"
                )
            found.append((one["name"], each["partition_index"]))
    if not found:
        return Gap(f"no topic of consumer group {group} exists any more")
    return found


def _cannot_have(topic: str, code: int) -> str:
    from kafka.errors import for_code

    if code == _UNKNOWN_TOPIC:
        return f"there is no topic {topic}"
    return f"topic {topic} cannot be read: {for_code(code).__name__}"


def _spans(client: BrokerClient, partitions: list[_Partition]) -> dict[_Partition, tuple[int, int]]:
    """First and last offsets. The last are read last: they only grow, so no lag is negative."""
    from kafka import OffsetSpec, TopicPartition

    wanted = [TopicPartition(*each) for each in partitions]
    earliest = dict.fromkeys(wanted, OffsetSpec.EARLIEST)
    latest = dict.fromkeys(wanted, OffsetSpec.LATEST)
    begins = client.ask(lambda admin: admin.list_partition_offsets(earliest))
    ends = client.ask(lambda admin: admin.list_partition_offsets(latest))
    return {(p.topic, p.partition): (begins[p].offset, ends[p].offset) for p in wanted}
