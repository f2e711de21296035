"""What is kept of kafka-python's log lines about connections, and when its attempts are ended."""

import logging

import pytest

from slackwater.rebalancer.sources.kafka_brokers import BrokerError, ConnectionFailures

SILENT = "KafkaConnectionError: socket disconnected"
REFUSED = "SaslAuthenticationFailedError: Invalid username or password"
UNTRUSTED = "SSLError: certificate verify failed: self-signed certificate"


def tell(failures: ConnectionFailures, server: str, why: str) -> None:
    line = f"Bootstrap connection to {server} failed: {why} (backoff 0.05 secs)"
    failures.handle(logging.makeLogRecord({"msg": line}))


def test_other_lines_say_nothing() -> None:
    failures = ConnectionFailures("a:1", 1)
    failures.handle(logging.makeLogRecord({"msg": f"closing, as {REFUSED}"}))
    assert failures.why == ""


def test_the_last_failure_counts() -> None:
    failures = ConnectionFailures("a:1", 1)
    tell(failures, "bootstrap-0", "KafkaConnectionError: 111 ECONNREFUSED")
    tell(failures, "bootstrap-0", SILENT)
    assert failures.why == SILENT


@pytest.mark.parametrize("why", [REFUSED, UNTRUSTED])
def test_a_refusal_by_the_only_server_ends_it(why: str) -> None:
    failures = ConnectionFailures("a:1", 1)
    tell(failures, "bootstrap-0", SILENT)
    with pytest.raises(BrokerError, match=f"the broker at a:1: {why}"):
        tell(failures, "bootstrap-0", why)


def test_one_of_two_that_refuses_is_remembered_and_the_other_still_asked() -> None:
    failures = ConnectionFailures("a:1, b:1", 2)
    tell(failures, "bootstrap-0", REFUSED)
    tell(failures, "bootstrap-1", SILENT)
    tell(failures, "bootstrap-0", REFUSED)
    assert failures.why == REFUSED
    with pytest.raises(BrokerError, match="the broker at a:1, b:1: "):
        tell(failures, "bootstrap-1", UNTRUSTED)
