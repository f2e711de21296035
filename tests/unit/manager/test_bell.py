"""The bell rings for whoever waits, also from a signal's handler."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from slackwater.manager.bell import Bell


@pytest.fixture
def bell() -> Iterator[Bell]:
    made = Bell()
    yield made
    made.close()


def test_nobody_rings(bell: Bell) -> None:
    began = time.monotonic()
    assert not bell.wait(0.05)
    assert time.monotonic() - began >= 0.05


def test_many_rings_count_once(bell: Bell) -> None:
    for _ in range(100_000):  # more than a pipe holds
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)


def test_another_thread_wakes_it(bell: Bell) -> None:
    thread = threading.Timer(0.05, bell.ring)
    thread.start()
    assert bell.wait(3600)
    thread.join()


def test_a_signal_wakes_it(bell: Bell) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: bell.ring())
    try:
        thread = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        thread.start()
        assert bell.wait(3600)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_time_in_the_past_is_no_wait(bell: Bell) -> None:
    assert not bell.wait(-5)
