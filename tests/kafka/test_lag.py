"""The lag of real consumer groups at a real broker: every partition counts, nothing is guessed."""

import gc
import logging
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from slackwater.model.gap import Gap
from slackwater.rebalancer.guards import lag_guard
from slackwater.rebalancer.observed import Lag
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.kafka_brokers import read_lag
from slackwater.settings.rebalancer import (
    KafkaAccess,
    KafkaProtocol,
    KafkaSettings,
    LagMode,
    LagSum,
)
from tests.kafka.conftest import USERNAME
from tests.kafka.topics import Topics
from tools.kafka.broker import Broker

#: Failing connections leave their sockets to the garbage collector: kafka-python's way.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
TIMEOUT = 300.0
#: For what fails only by it.
SHORT = 5.0


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Here, where it is no error."""
    yield
    gc.collect()


@pytest.fixture
def name() -> str:
    """Of a topic, and of a group: one test's own."""
    return f"t{uuid.uuid4().hex[:8]}"


def at(broker: Broker, **more: object) -> KafkaSettings:
    settings = KafkaSettings(enabled=True, bootstrap_servers=(broker.address,))
    return msgspec.structs.replace(settings, **more)


def messages(lag: Lag | Gap) -> int:
    assert isinstance(lag, Lag), lag
    return lag.messages


@pytest.mark.parametrize(
    ("aggregate", "expected"), [(LagSum.SUM, 70), (LagSum.MAX, 25)], ids=["sum", "max"]
)
def test_partitions_that_were_never_committed_count(
    broker: Broker, topics: Topics, name: str, aggregate: LagSum, expected: int
) -> None:
    """100 messages in 4 partitions; 30 are committed in two of them, so 70 are not."""
    topics.make(name)
    topics.commit(name, name, {0: 20, 1: 10})
    for topic in (name, ""):
        lag = read_lag(at(broker, topic=topic, aggregate=aggregate), name, TIMEOUT)
        assert lag == Lag(expected, f"broker {broker.address}, 4 partitions")


def test_a_group_that_never_committed_is_behind_by_all(
    broker: Broker, topics: Topics, name: str
) -> None:
    """Its topics are known by what its members have."""
    topics.make(name)
    with topics.consumer(name, name):
        assert messages(read_lag(at(broker), name, TIMEOUT)) == 100
        assert messages(read_lag(at(broker, topic=name), name, TIMEOUT)) == 100


def test_a_group_that_read_all_is_not_behind(broker: Broker, topics: Topics, name: str) -> None:
    topics.make(name)
    topics.commit(name, name, dict.fromkeys(range(4), 25))
    assert messages(read_lag(at(broker), name, TIMEOUT)) == 0


def test_what_retention_took_is_not_waited_for(broker: Broker, topics: Topics, name: str) -> None:
    """Committed 5, but the first that is left is 10: the consumer begins anew there."""
    topics.make(name, partitions=1, messages=25)
    topics.commit(name, name, {0: 5})
    topics.forget_before(name, 0, 10)
    assert messages(read_lag(at(broker), name, TIMEOUT)) == 15


def test_a_name_that_no_group_has_is_not_known(broker: Broker, topics: Topics, name: str) -> None:
    topics.make(name)
    assert read_lag(at(broker, topic=name), "nobody", TIMEOUT) == Gap(
        f"there is no consumer group nobody at {broker.address}"
    )


def test_a_topic_that_is_not_there_is_not_known(broker: Broker, topics: Topics, name: str) -> None:
    topics.make(name)
    topics.commit(name, name, {0: 20})
    lag = read_lag(at(broker, topic="nowhere"), name, TIMEOUT)
    assert lag == Gap("there is no topic nowhere")
    assert "nowhere" not in topics.names()


def test_a_deleted_topic_has_nothing_left_to_be_read(
    broker: Broker, topics: Topics, name: str
) -> None:
    other = f"{name}-other"
    topics.make(name)
    topics.make(other, partitions=2, messages=10)
    topics.commit(name, name, {0: 20, 1: 10})
    topics.commit(name, other, {0: 1})
    assert messages(read_lag(at(broker), name, TIMEOUT)) == 79
    topics.delete(other)
    assert messages(read_lag(at(broker), name, TIMEOUT)) == 70
    assert read_lag(at(broker, topic=other), name, TIMEOUT) == Gap(f"there is no topic {other}")
    topics.delete(name)
    assert isinstance(read_lag(at(broker), name, TIMEOUT), Gap)


def test_while_partitions_are_handed_out_the_number_does_not_count(
    broker: Broker, topics: Topics, name: str
) -> None:
    """A second member wants in, and the first has not heard of it."""
    topics.make(name)
    with topics.consumer(name, name) as first, topics.joining(name, name):
        topics.await_state(name, "PreparingRebalance")
        lag = read_lag(at(broker), name, TIMEOUT)
        assert isinstance(lag, Lag)
        assert lag.unsettled == "its state is PreparingRebalance"
        assert lag_guard(lag, at(broker), name).reason is Reason.KAFKA_REBALANCING
        first.unsubscribe()


def test_static_members_are_seen(broker: Broker, topics: Topics, name: str) -> None:
    topics.make(name)
    with topics.consumer(name, name, static="web-0"):
        lag = read_lag(at(broker), name, TIMEOUT)
    assert isinstance(lag, Lag)
    assert (lag.messages, lag.static_members) == (100, 1)
    guard = lag_guard(lag, at(broker), name, "StatefulSet")
    assert guard.reason is Reason.KAFKA_STATIC_MEMBERS


@pytest.mark.parametrize(
    ("mode", "threshold", "reason"),
    [
        (LagMode.BLOCK_ABOVE, 69, Reason.KAFKA_LAG_HIGH),
        (LagMode.BLOCK_ABOVE, 70, None),
        (LagMode.REQUIRE_ABOVE, 69, None),
        (LagMode.REQUIRE_ABOVE, 70, Reason.KAFKA_LAG_LOW),
    ],
)
def test_the_gate_with_a_real_number(
    broker: Broker,
    topics: Topics,
    name: str,
    mode: LagMode,
    threshold: int,
    reason: Reason | None,
) -> None:
    topics.make(name)
    topics.commit(name, name, {0: 20, 1: 10})
    settings = at(broker, topic=name, mode=mode, threshold=threshold)
    guard = lag_guard(read_lag(settings, name, TIMEOUT), settings, name)
    assert (guard.passed, guard.reason) == (reason is None, reason)
    assert f"consumer group {name} on topic {name} is 70 messages behind" in guard.because


def test_nothing_is_left_behind_and_nothing_is_said(
    broker: Broker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that logs everything sees nothing of the library's either."""
    handler = logging.StreamHandler()
    monkeypatch.setattr(logging.root, "handlers", [handler])
    monkeypatch.setattr(logging.getLogger("kafka"), "level", logging.DEBUG)
    before = threading.active_count()
    assert isinstance(read_lag(at(broker), "nobody", TIMEOUT), Gap)
    closed = KafkaSettings(bootstrap_servers=("127.0.0.1:1",))
    lag = read_lag(closed, "nobody", 1.0)
    assert lag == Gap(
        "no broker at 127.0.0.1:1 answers within 1 s: KafkaConnectionError: 111 ECONNREFUSED"
    )
    assert threading.active_count() == before
    assert capfd.readouterr() == ("", "")


def test_a_killed_broker_is_a_sentence_and_its_return_a_number(
    broker: Broker, topics: Topics, name: str
) -> None:
    topics.make(name)
    topics.commit(name, name, {0: 20, 1: 10})
    broker.kill()
    try:
        lag = read_lag(at(broker, topic=name), name, SHORT)
    finally:
        broker.start()
    assert isinstance(lag, Gap)
    assert lag.reason.startswith(f"no broker at {broker.address} answers within {SHORT:g} s: ")
    assert messages(read_lag(at(broker, topic=name), name, TIMEOUT)) == 70


class TestSecure:
    """By TLS, with a name and a password."""

    @pytest.fixture
    def settings(self, broker: Broker, ca_file: str, password_file: Path) -> KafkaSettings:
        access = KafkaAccess(
            KafkaProtocol.SASL_SSL,
            ca_file=ca_file,
            username=USERNAME,
            password_file=str(password_file),
        )
        return KafkaSettings(
            enabled=True, bootstrap_servers=(broker.secure_address,), access=access
        )

    def test_who_knows_the_password_is_told(
        self, topics: Topics, settings: KafkaSettings, name: str
    ) -> None:
        topics.make(name)
        topics.commit(name, name, {0: 20, 1: 10})
        assert messages(read_lag(settings, name, TIMEOUT)) == 70

    def test_a_wrong_password_is_a_sentence(
        self, settings: KafkaSettings, password_file: Path
    ) -> None:
        password_file.write_text("open barley")
        lag = read_lag(settings, "any", TIMEOUT)
        assert isinstance(lag, Gap)
        assert lag.reason.startswith(f"the broker at {settings.bootstrap_servers[0]}: ")
        assert "Authentication failed: Invalid username or password" in lag.reason
        assert "barley" not in lag.reason

    def test_a_stranger_s_certificate_is_not_trusted(self, settings: KafkaSettings) -> None:
        access = msgspec.structs.replace(settings.access, ca_file="")
        lag = read_lag(msgspec.structs.replace(settings, access=access), "any", TIMEOUT)
        assert isinstance(lag, Gap)
        assert "certificate verify failed" in lag.reason

    def test_plain_words_are_not_understood(self, settings: KafkaSettings) -> None:
        plain = msgspec.structs.replace(settings, access=KafkaAccess())
        lag = read_lag(plain, "any", SHORT)
        assert isinstance(lag, Gap)
        assert lag.reason.startswith("no broker at ")
