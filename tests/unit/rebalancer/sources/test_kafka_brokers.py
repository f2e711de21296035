"""The conversation with a broker, against one that says whatever a test wants."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from kafka import OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
)

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Lag
from slackwater.rebalancer.sources import kafka_brokers
from slackwater.rebalancer.sources.kafka_brokers import Brokers, read_lag
from slackwater.settings.rebalancer import KafkaAccess, KafkaProtocol, KafkaSettings, LagSum

SERVER = "kafka.shop:9092"
#: Kafka's codes (kafka.apache.org/protocol).
UNKNOWN_TOPIC, TOPIC_REFUSED = 3, 29


class FakeAdmin:
    """Stands in for KafkaAdminClient. `topics`: the partitions of each as (begin, end)."""

    def __init__(self) -> None:
        self.topics: dict[str, list[tuple[int, int]]] = {"t": [(0, 25)] * 4}
        self.committed: dict[tuple[str, int], int] = {("t", 0): 20, ("t", 1): 10}
        self.state = "Stable"
        self.members: list[dict[str, Any]] = []
        self.listed: list[str] = []
        self.refused: dict[str, int] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.failures: dict[str, list[Exception]] = {}
        self.asked: list[str] = []
        self.closed = 0

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.failures.get(what):
            raise self.failures[what].pop(0)

    def list_group_offsets(self, specs: Mapping[str, None]) -> dict[str, Any]:
        self._ask("offsets")
        [group] = specs
        return {
            group: {
                TopicPartition(*each): OffsetAndMetadata(offset, "", -1)
                for each, offset in self.committed.items()
            }
        }

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        self._ask("group")
        return {groups[0]: {"group_state": self.state, "members": self.members, "error": None}}

    def list_groups(self) -> list[dict[str, Any]]:
        self._ask("groups")
        return [{"group_id": name} for name in self.listed]

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        self._ask(f"topics {' '.join(topics)}")
        return [self._topic(name) for name in topics]

    def _topic(self, name: str) -> dict[str, Any]:
        code = self.refused.get(name, 0 if name in self.topics else UNKNOWN_TOPIC)
        count = 0 if code else len(self.topics[name])
        partitions = [
            {"partition_index": number, "leader_id": self.leaders.get((name, number), 1)}
            for number in range(count)
        ]
        return {"name": name, "error_code": code, "partitions": partitions}

    def list_partition_offsets(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[Any, Any]:
        [spec] = set(specs.values())
        self._ask(spec.name)
        place = 0 if spec is OffsetSpec.EARLIEST else 1
        return {
            each: OffsetAndMetadata(self.topics[each.topic][each.partition][place], "", -1)
            for each in specs
        }

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin()
    monkeypatch.setattr(kafka_brokers, "_admin", lambda *_: made)
    monkeypatch.setattr(kafka_brokers, "_PAUSE_SECONDS", 0.001)
    return made


def lag_of(topic: str = "", aggregate: LagSum = LagSum.SUM, timeout: float = 0.05) -> Lag | Gap:
    settings = KafkaSettings(topic=topic, aggregate=aggregate, bootstrap_servers=(SERVER,))
    return read_lag(settings, "g", timeout)


def known(messages: int, partitions: str) -> Lag:
    return Lag(messages, f"broker {SERVER}, {partitions}")


def member(subscribed: tuple[str, ...] = (), assigned: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "member_metadata": {"topics": list(subscribed)},
        "member_assignment": {
            "assigned_partitions": [{"topic": name, "partitions": [0]} for name in assigned]
        },
    }


def test_all_partitions_of_the_topic_count(admin: FakeAdmin) -> None:
    assert lag_of() == lag_of("t") == known(70, "4 partitions")
    assert lag_of("t", LagSum.MAX) == known(25, "4 partitions")
    assert admin.closed == 3


def test_what_is_read_and_in_which_order(admin: FakeAdmin) -> None:
    """Commits first, ends last: both grow, so a lag is never too small, and never below 0."""
    lag_of("t")
    assert admin.asked == ["offsets", "group", "topics t", "EARLIEST", "LATEST"]


@pytest.mark.parametrize(
    ("committed", "members", "expected"),
    [
        ({}, [member(("t",))], known(100, "4 partitions")),
        ({}, [member(assigned=("t",))], known(100, "4 partitions")),
        ({}, [member(("t",), ("t", "u"))], known(110, "6 partitions")),
        ({("t", 0): 20}, [member(("u",))], known(90, "6 partitions")),
        ({("t", 0): -1}, [member(("t",))], known(100, "4 partitions")),
        (
            {("t", 0): 20},
            [{"member_metadata": b"?", "member_assignment": b""}],
            known(80, "4 partitions"),
        ),
    ],
    ids=["subscribed", "assigned", "both", "and committed", "-1 is none", "not decoded"],
)
def test_topics_of_a_group(
    admin: FakeAdmin,
    committed: dict[tuple[str, int], int],
    members: list[dict[str, Any]],
    expected: Lag,
) -> None:
    admin.topics["u"] = [(0, 5), (0, 5)]
    admin.committed, admin.members = committed, members
    assert lag_of() == expected


def test_one_partition_is_no_plural(admin: FakeAdmin) -> None:
    admin.topics, admin.committed = {"t": [(3, 4)]}, {("t", 0): 3}
    assert lag_of() == known(1, "1 partition")


class TestGroups:
    def test_a_name_that_no_group_has(self, admin: FakeAdmin) -> None:
        admin.committed, admin.state = {}, "Dead"
        assert lag_of("t") == Gap(f"there is no consumer group g at {SERVER}")
        assert admin.asked == ["offsets", "group", "groups"]

    def test_a_group_of_the_newer_protocol_is_only_listed(self, admin: FakeAdmin) -> None:
        admin.committed, admin.state, admin.listed = {}, "Dead", ["other", "g"]
        assert lag_of("t") == known(100, "4 partitions")

    def test_what_it_committed_is_proof_enough(self, admin: FakeAdmin) -> None:
        admin.state = "Dead"
        assert lag_of("t") == known(70, "4 partitions")
        assert "groups" not in admin.asked

    def test_a_group_without_any_topic(self, admin: FakeAdmin) -> None:
        admin.committed, admin.state = {}, "Empty"
        assert lag_of() == Gap(
            "consumer group g has neither committed offsets nor topics; name its topic"
        )

    @pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
    def test_a_group_that_hands_out_its_partitions(self, admin: FakeAdmin, state: str) -> None:
        admin.state = state
        lag = lag_of("t")
        assert isinstance(lag, Lag)
        assert (lag.messages, lag.unsettled) == (70, f"its state is {state}")

    def test_static_members_are_counted(self, admin: FakeAdmin) -> None:
        named = {**member(("t",)), "group_instance_id": "web-0"}
        admin.members = [named, named, {**member(("t",)), "group_instance_id": None}]
        lag = lag_of("t")
        assert isinstance(lag, Lag)
        assert (lag.messages, lag.static_members) == (70, 2)

    @pytest.mark.parametrize("state", ["Stable", "Empty", "Assigning", "Reconciling"])
    def test_other_states_do_not_matter(self, admin: FakeAdmin, state: str) -> None:
        admin.state = state
        assert lag_of("t") == known(70, "4 partitions")


class TestTopics:
    @pytest.mark.usefixtures("admin")
    def test_one_that_is_named_has_to_be_there(self) -> None:
        assert lag_of("nowhere") == Gap("there is no topic nowhere")

    def test_one_that_was_deleted_has_nothing_left(self, admin: FakeAdmin) -> None:
        admin.committed[("gone", 0)] = 7
        assert lag_of() == known(70, "4 partitions")

    def test_all_deleted_is_not_known(self, admin: FakeAdmin) -> None:
        admin.topics = {}
        assert lag_of() == Gap("no topic of consumer group g exists any more")

    @pytest.mark.parametrize("topic", ["", "t"])
    def test_one_that_may_not_be_read(self, admin: FakeAdmin, topic: str) -> None:
        admin.refused = {"t": TOPIC_REFUSED}
        assert lag_of(topic) == Gap("topic t cannot be read: TopicAuthorizationFailedError")

    def test_a_partition_without_a_leader(self, admin: FakeAdmin) -> None:
        admin.leaders = {("t", 2): -1}
        assert lag_of("t") == Gap("partition 2 of topic t has no leader")

    def test_a_topic_without_partitions_is_not_known(self, admin: FakeAdmin) -> None:
        admin.topics = {"t": []}
        assert isinstance(lag_of("t"), Gap)


class TestFailures:
    def test_who_is_just_starting_is_asked_again(self, admin: FakeAdmin) -> None:
        admin.failures = {
            "offsets": [CoordinatorNotAvailableError(), CoordinatorNotAvailableError()]
        }
        assert lag_of("t", timeout=30.0) == known(70, "4 partitions")
        assert admin.asked[:3] == ["offsets"] * 3

    @pytest.mark.parametrize("what", ["offsets", "group", "topics t", "EARLIEST", "LATEST"])
    def test_not_for_ever(self, admin: FakeAdmin, what: str) -> None:
        admin.failures = {what: [KafkaConnectionError("it went away")] * 1000}
        lag = lag_of("t")
        assert lag == Gap(
            f"no broker at {SERVER} answers within 0.05 s: "
            "KafkaTimeoutError: KafkaConnectionError: it went away"
        )
        assert admin.closed == 1

    def test_one_groups_trouble_is_its_own(self, admin: FakeAdmin) -> None:
        """The brokers were there: its coordinator was not."""
        brokers, settings = Brokers(), KafkaSettings(topic="t", bootstrap_servers=(SERVER,))
        admin.failures = {"offsets": [CoordinatorNotAvailableError()] * 1000}
        assert isinstance(brokers.read_lag(settings, "g", 0.05), Gap)
        admin.failures = {}
        assert brokers.read_lag(settings, "g", 5.0) == known(70, "4 partitions")

    def test_what_is_refused_is_not_asked_again(self, admin: FakeAdmin) -> None:
        admin.failures = {"offsets": [GroupAuthorizationFailedError("g is not yours")]}
        assert lag_of("t") == Gap(
            f"the broker at {SERVER}: [Error 30] GroupAuthorizationFailedError: g is not yours"
        )
        assert (admin.asked, admin.closed) == (["offsets"], 1)

    def test_an_answer_that_means_nothing(self, admin: FakeAdmin) -> None:
        admin.failures = {"group": [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")]}
        lag = lag_of("t")
        assert isinstance(lag, Gap)
        assert lag.reason.startswith(f"the broker at {SERVER}: 'utf-8' codec can't decode")

    def test_a_fault_of_ours_is_not_hidden(self, admin: FakeAdmin) -> None:
        admin.failures = {"group": [KeyError("members")]}
        with pytest.raises(KeyError):
            lag_of("t")
        assert admin.closed == 1


def test_the_kept_constant_is_kafka_s_own() -> None:
    from kafka.errors import UnknownTopicOrPartitionError

    assert UnknownTopicOrPartitionError.errno == kafka_brokers._UNKNOWN_TOPIC


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
