"""Brokers that are not there are waited for once in a round, as the library ends without one."""

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError

from slackwater.model.gap import Gap
from slackwater.rebalancer.sources import kafka_brokers
from slackwater.rebalancer.sources.kafka_brokers import Brokers
from slackwater.settings.rebalancer import KafkaAccess, KafkaProtocol, KafkaSettings

NOWHERE = KafkaSettings(bootstrap_servers=("127.0.0.1:1",))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []

    def counting(servers: tuple[str, ...], *_: object) -> kafka_brokers.KafkaAdmin:
        made.append(servers)
        raise KafkaTimeoutError("nobody is there")

    monkeypatch.setattr(kafka_brokers, "_admin", counting)
    return made


def test_it_is_waited_for_once(tried: list[tuple[str, ...]]) -> None:
    brokers = Brokers()
    found = {brokers.read_lag(NOWHERE, group, 0.2) for group in "abcdefgh"}
    [gap] = found
    assert isinstance(gap, Gap)
    assert gap.reason.startswith("no broker at 127.0.0.1:1 answers within 0.2 s: ")
    assert tried == [("127.0.0.1:1",)]


def test_others_are_asked(tried: list[tuple[str, ...]]) -> None:
    """Other brokers, and the same with another name or password."""
    brokers = Brokers()
    others = KafkaSettings(bootstrap_servers=("127.0.0.1:2",))
    sasl = KafkaAccess(KafkaProtocol.PLAINTEXT, username="me")
    for settings in (NOWHERE, others, msgspec.structs.replace(NOWHERE, access=sasl)):
        assert isinstance(brokers.read_lag(settings, "g", 0.2), Gap)
    assert tried == [("127.0.0.1:1",), ("127.0.0.1:2",), ("127.0.0.1:1",)]


def test_the_next_round_asks_again(tried: list[tuple[str, ...]]) -> None:
    for _ in range(2):
        Brokers().read_lag(NOWHERE, "g", 0.2)
    assert len(tried) == 2


def test_what_cannot_be_sent_is_no_silence(tried: list[tuple[str, ...]]) -> None:
    """A file that is missing may be there for the next group."""
    brokers, access = Brokers(), KafkaAccess(KafkaProtocol.SSL, ca_file="/nowhere")
    settings = msgspec.structs.replace(NOWHERE, access=access)
    for _ in range(2):
        lag = brokers.read_lag(settings, "g", 0.2)
        assert lag == Gap("the CA file /nowhere: No such file or directory")
    assert tried == []
