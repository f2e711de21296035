"""Topics and consumers of the tests at one broker, by kafka-python."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

#: Whatever takes longer is broken.
_PATIENCE = 300.0


class Topics:
    """Guards an administrator's connection to one broker."""

    def __init__(self, address: str) -> None:
        from kafka import KafkaAdminClient

        # What the library says of a broker that the tests kill is no news.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._address = address
        self._admin = KafkaAdminClient(bootstrap_servers=address)

    def close(self) -> None:
        self._admin.close()

    def make(self, topic: str, partitions: int = 4, messages: int = 100) -> None:
        """As many messages in each partition."""
        from kafka import KafkaProducer

        self._admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        producer = KafkaProducer(bootstrap_servers=self._address, acks="all")
        for number in range(messages):
            producer.send(topic, b"message", partition=number % partitions)
        producer.flush()
        producer.close()

    def names(self) -> list[str]:
        return list(self._admin.list_topics())

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])
        self._until(lambda: topic not in self._admin.list_topics())

    def forget_before(self, topic: str, partition: int, offset: int) -> None:
        """As retention does."""
        from kafka import TopicPartition

        self._admin.delete_records({TopicPartition(topic, partition): offset})

    @contextmanager
    def consumer(self, group: str, *topics: str, static: str | None = None) -> Iterator[Any]:
        """A member of the group that has its partitions, and commits when it is told. `static`:
        its group.instance.id."""
        from kafka import KafkaConsumer

        member = KafkaConsumer(
            *topics,
            bootstrap_servers=self._address,
            group_id=group,
            group_instance_id=static,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        try:
            deadline = time.monotonic() + _PATIENCE
            while topics and not member.assignment():
                assert time.monotonic() < deadline, "no partitions were assigned"
                member.poll(timeout_ms=100)
            yield member
        finally:
            member.close()

    @contextmanager
    def joining(self, group: str, topic: str) -> Iterator[None]:
        """A member that has asked to be let in, and waits for the others."""
        from kafka import KafkaConsumer

        member = KafkaConsumer(
            topic, bootstrap_servers=self._address, group_id=group, enable_auto_commit=False
        )
        try:
            member.poll(timeout_ms=200)
            yield
        finally:
            member.close(autocommit=False, timeout_ms=1000)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """By partition. Whoever does not subscribe joins no group."""
        from kafka import OffsetAndMetadata, TopicPartition

        with self.consumer(group) as member:
            member.commit(
                {
                    TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
                    for partition, offset in offsets.items()
                }
            )

    def await_state(self, group: str, state: str) -> None:
        self._until(lambda: self._admin.describe_groups([group])[group]["group_state"] == state)

    def _until(self, is_so: Any) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.05)
