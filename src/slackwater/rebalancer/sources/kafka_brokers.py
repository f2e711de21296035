"""The lag of a consumer group, asked of Kafka's brokers themselves (extra `kafka`).

Owns one conversation: what the group has committed, who is in it, and the first and last offset of
every partition of its topics, never-committed ones too. Commits nothing, joins no group, makes no
topic. Ends are high watermarks, as kafka-consumer-groups.sh counts them: messages of open
transactions are among them. Whatever goes wrong is a Gap with one sentence.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Lag
from slackwater.rebalancer.reason import counted
from slackwater.rebalancer.sources.kafka_client import (
    BrokerClient,
    BrokerError,
    BrokerUnreachableError,
    connected,
)
from slackwater.rebalancer.sources.kafka_lag import aggregate_lag, partition_lag
from slackwater.settings.rebalancer import KafkaAccess, KafkaSettings

#: Kafka's error codes (kafka.apache.org/protocol: errors).
_UNKNOWN_TOPIC = 3
_UNKNOWN_GROUP_STATE = "Dead"
#: Of a classic group; a group of the newer protocol moves partitions one by one and has no such.
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")
_Partition = tuple[str, int]


class ConsumerGroup(msgspec.Struct, frozen=True):
    """`topics`: what its members subscribe to or are assigned. `state`: as Kafka names it.
    `static_members`: how many have a group.instance.id."""

    committed: Mapping[_Partition, int]
    topics: frozenset[str]
    state: str
    static_members: int


class Brokers:
    """Guards one round's knowledge of who was silent: the next group would wait as long for the
    same brokers, so it hears the same at once."""

    def __init__(self) -> None:
        self._silent: dict[tuple[tuple[str, ...], KafkaAccess], Gap] = {}

    def read_lag(self, settings: KafkaSettings, group: str, timeout: float) -> Lag | Gap:
        """`timeout` in seconds, for all of it."""
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
    """The same for one group alone."""
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
    """A name that no group has would look like one that never committed, so that is asked."""
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
    """Groups of the newer protocol are called dead by the question for the classic ones."""
    listed = client.ask(lambda admin: admin.list_groups())
    return any(one["group_id"] == group for one in listed)


def _topics_of(member: Mapping[str, Any]) -> Iterator[str]:
    """What the library could not decode is left as bytes."""
    subscription, assignment = member["member_metadata"], member["member_assignment"]
    if isinstance(subscription, Mapping):
        yield from subscription["topics"]
    if isinstance(assignment, Mapping):
        yield from (one["topic"] for one in assignment["assigned_partitions"])


def _partitions(
    client: BrokerClient, topic: str, group: str, seen: ConsumerGroup
) -> list[_Partition] | Gap:
    """Of the topic that is named, else of all that the group has to do with; a topic of those that
    was deleted has nothing left to be read."""
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
    """First and last offset. The last are asked last: they only grow, so no lag is below 0."""
    from kafka import OffsetSpec, TopicPartition

    wanted = [TopicPartition(*each) for each in partitions]
    earliest = dict.fromkeys(wanted, OffsetSpec.EARLIEST)
    latest = dict.fromkeys(wanted, OffsetSpec.LATEST)
    begins = client.ask(lambda admin: admin.list_partition_offsets(earliest))
    ends = client.ask(lambda admin: admin.list_partition_offsets(latest))
    return {(p.topic, p.partition): (begins[p].offset, ends[p].offset) for p in wanted}
