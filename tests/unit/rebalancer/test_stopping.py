"""The sleep that a signal, another thread or the time ends."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from slackwater.rebalancer.stopping import Interrupted, Stop


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    yield made
    made.close()


def test_a_sleep_takes_its_time(stop: Stop) -> None:
    began = time.monotonic()
    assert not stop.wait(0.05)
    assert time.monotonic() - began >= 0.05
    assert not stop.is_asked()


def test_who_is_asked_to_end_does_not_sleep(stop: Stop) -> None:
    stop.ask()
    assert stop.is_asked()
    assert stop.wait(3600)
    assert stop.wait(3600)


def test_another_thread_ends_a_sleep(stop: Stop) -> None:
    threading.Timer(0.02, stop.ask).start()
    assert stop.wait(3600)


def test_to_wake_is_not_to_end(stop: Stop) -> None:
    stop.wake()
    assert not stop.wait(3600)
    assert not stop.wait(0.01), "what woke it before is forgotten"


def test_waking_never_blocks(stop: Stop) -> None:
    for _ in range(100_000):
        stop.wake()
    assert not stop.wait(3600)


@pytest.fixture
def signalled(stop: Stop) -> Iterator[Stop]:
    """One that hears SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    stop.on(signal.SIGUSR1)
    yield stop
    signal.signal(signal.SIGUSR1, before)


def send_soon() -> None:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()


def test_a_signal_interrupts_a_question(signalled: Stop) -> None:
    silent, other = socket.socketpair()
    with silent, other:
        silent.settimeout(3600)
        send_soon()
        with pytest.raises(Interrupted), signalled.interrupting():
            silent.recv(1)
    assert signalled.is_asked()


def taken_elsewhere() -> None:
    """Another thread takes the signal: the main one's system call is not interrupted by it."""
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)


def test_a_signal_that_another_thread_took_interrupts_a_question(signalled: Stop) -> None:
    """So it goes with two in a row."""
    silent, other = socket.socketpair()
    with silent, other:
        silent.settimeout(3600)
        threading.Timer(0.05, taken_elsewhere).start()
        with pytest.raises(Interrupted), signalled.interrupting():
            silent.recv(1)


def test_a_signal_that_another_thread_took_ends_a_sleep(signalled: Stop) -> None:
    threading.Timer(0.05, taken_elsewhere).start()
    assert signalled.wait(3600)


def test_a_signal_after_the_end_does_nothing() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    late = Stop()
    late.on(signal.SIGUSR1)
    late.close()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert late.is_asked()
    signal.signal(signal.SIGUSR1, before)


def test_outside_of_a_question_nothing_is_raised(signalled: Stop) -> None:
    with signalled.interrupting():
        pass
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signalled.wait(3600)


def test_who_is_asked_to_end_asks_nothing_more(stop: Stop) -> None:
    stop.ask()
    with pytest.raises(Interrupted), stop.interrupting():
        pytest.fail("it was asked")


def test_a_question_that_fails_leaves_nothing_behind(signalled: Stop) -> None:
    with pytest.raises(OSError, match="broken"), signalled.interrupting():
        raise OSError("broken")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signalled.is_asked()


PROGRAM = """
import os, signal, sys
from slackwater.rebalancer.stopping import Stop
stop = Stop()
stop.on(signal.SIGTERM, signal.SIGINT)
print("ready", flush=True)
while not stop.wait(3600):
    pass
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_program(number: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.stdout.read() == "ended\n"
        assert child.wait() == 0
