"""Whether the lag of a consumer group forbids a rotation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.rebalancer.guards import GuardResult, lag_guard
from slackwater.rebalancer.observed import Lag
from slackwater.rebalancer.reason import PROBLEMS, Reason
from slackwater.settings.rebalancer import KafkaSettings, LagMode, LagSum

BLOCK, REQUIRE = LagMode.BLOCK_ABOVE, LagMode.REQUIRE_ABOVE


@pytest.mark.parametrize(
    ("mode", "messages", "reason", "relation"),
    [
        (BLOCK, 0, None, "not above"),
        (BLOCK, 999, None, "not above"),
        (BLOCK, 1000, None, "not above"),
        (BLOCK, 1001, Reason.KAFKA_LAG_HIGH, "above"),
        (REQUIRE, 0, Reason.KAFKA_LAG_LOW, "not above"),
        (REQUIRE, 1000, Reason.KAFKA_LAG_LOW, "not above"),
        (REQUIRE, 1001, None, "above"),
    ],
)
def test_the_threshold_itself_is_not_above(
    mode: LagMode, messages: int, reason: Reason | None, relation: str
) -> None:
    settings = KafkaSettings(enabled=True, mode=mode)
    guard = lag_guard(Lag(messages, "broker a:9092"), settings, "orders")
    assert guard == GuardResult(
        "kafka_lag",
        reason is None,
        f"consumer group orders is {messages} messages behind, {relation} 1000 (broker a:9092)",
        reason,
    )


@pytest.mark.parametrize(
    ("settings", "messages", "because"),
    [
        (
            KafkaSettings(topic="events", threshold=5),
            70,
            "consumer group g on topic events is 70 messages behind, above 5 (somewhere)",
        ),
        (
            KafkaSettings(aggregate=LagSum.MAX),
            25,
            "consumer group g is 25 messages behind in one partition, not above 1000 (somewhere)",
        ),
        (
            KafkaSettings(threshold=0),
            1,
            "consumer group g is 1 message behind, above 0 (somewhere)",
        ),
    ],
)
def test_the_sentence_has_whose_how_much_the_threshold_and_the_source(
    settings: KafkaSettings, messages: int, because: str
) -> None:
    assert lag_guard(Lag(messages, "somewhere"), settings, "g").because == because


@pytest.mark.parametrize("mode", LagMode)
def test_what_is_not_known_forbids_in_either_mode(mode: LagMode) -> None:
    settings = KafkaSettings(mode=mode, topic="events")
    guard = lag_guard(Gap("Prometheus is away"), settings, "orders")
    assert guard == GuardResult(
        "kafka_lag",
        False,
        "the lag of consumer group orders on topic events is not known: Prometheus is away",
        Reason.KAFKA_LAG_UNKNOWN,
    )


@pytest.mark.parametrize("mode", LagMode)
@pytest.mark.parametrize("messages", [0, 100_000])
def test_a_group_that_hands_out_its_partitions_is_left_alone(mode: LagMode, messages: int) -> None:
    """Whatever the number says. Nobody has to mend that: it passes."""
    lag = Lag(messages, "broker a:9092", "its state is PreparingRebalance")
    guard = lag_guard(lag, KafkaSettings(mode=mode), "orders")
    assert guard == GuardResult(
        "kafka_lag",
        False,
        "consumer group orders is not settled: its state is PreparingRebalance (broker a:9092)",
        Reason.KAFKA_REBALANCING,
    )
    assert Reason.KAFKA_REBALANCING not in PROBLEMS


@pytest.mark.parametrize(
    ("kind", "static", "reason"),
    [
        ("StatefulSet", 2, Reason.KAFKA_STATIC_MEMBERS),
        ("StatefulSet", 0, None),
        ("Deployment", 2, None),
        ("", 2, None),
    ],
)
def test_who_gets_its_partitions_back_is_not_rotated(
    kind: str, static: int, reason: Reason | None
) -> None:
    lag = Lag(0, "broker a:9092", static_members=static)
    guard = lag_guard(lag, KafkaSettings(), "orders", kind)
    assert (guard.passed, guard.reason) == (reason is None, reason)
    if reason is not None:
        assert guard.because == (
            "consumer group orders has 2 static members (broker a:9092): a pod of a StatefulSet "
            "comes back under its name and gets the same partitions, so nothing would move"
        )


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_the_modes_are_opposites(messages: int, threshold: int) -> None:
    block, require = (
        lag_guard(Lag(messages, "x"), KafkaSettings(threshold=threshold, mode=mode), "g")
        for mode in (BLOCK, REQUIRE)
    )
    assert block.passed is not require.passed
    assert block.because == require.because
