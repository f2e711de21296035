"""The loop's sleep: what ends it, and what does not."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from slackwater.agent.waiting import Waiter, Woken


class Quiet:
    """Nothing rings."""

    def descriptors(self) -> tuple[int, ...]:
        return ()

    def means_something(self, _fd: int) -> bool:
        raise AssertionError("nothing rang")


@pytest.fixture
def waiter() -> Iterator[Waiter]:
    made = Waiter(Quiet())
    yield made
    made.close()


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_the_period_ends_it_and_not_before(waiter: Waiter, seconds: float) -> None:
    start = time.monotonic()
    assert waiter.wait(seconds) is Woken.DUE
    assert time.monotonic() - start >= seconds


def test_a_call_ends_it_once(waiter: Waiter) -> None:
    for _ in range(3):
        waiter.wake()
    assert waiter.wait(3600) is Woken.ASKED
    assert waiter.wait(0.01) is Woken.DUE


def test_a_call_from_another_thread(waiter: Waiter) -> None:
    timer = threading.Timer(0.05, waiter.wake)
    timer.start()
    assert waiter.wait(3600) is Woken.ASKED
    timer.join()


def test_calls_that_nobody_hears_never_block(waiter: Waiter) -> None:
    for _ in range(100_000):  # a pipe holds 65,536
        waiter.wake()
    assert waiter.wait(3600) is Woken.ASKED


def test_a_signal_ends_every_wait_from_then_on(waiter: Waiter) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        waiter.stop_on(signal.SIGUSR2)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR2)).start()
        assert waiter.wait(3600) is Woken.STOP
        assert waiter.wait(3600) is Woken.STOP
    finally:
        signal.signal(signal.SIGUSR2, before)
