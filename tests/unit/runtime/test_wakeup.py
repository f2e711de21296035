"""The sleep of a loop: what ends it, and what does not."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from slackwater.runtime.wakeup import Interrupted, InterruptibleWakePipe, WakePipe, Woken


@pytest.fixture(params=[WakePipe, InterruptibleWakePipe])
def pipe(request: pytest.FixtureRequest) -> Iterator[WakePipe]:
    made: WakePipe = request.param()
    yield made
    made.close()


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 0.05])
def test_the_time_ends_it_and_not_before(pipe: WakePipe, seconds: float) -> None:
    began = time.monotonic()
    assert pipe.wait(seconds) is Woken.TIMEOUT
    assert time.monotonic() - began >= seconds
    assert not pipe.is_stopping()


def test_calls_end_it_once(pipe: WakePipe) -> None:
    for _ in range(100_000):  # more than a pipe holds; none of them blocks
        pipe.wake()
    assert pipe.wait(60) is Woken.CALL
    assert pipe.wait(0.01) is Woken.TIMEOUT


def test_another_thread_ends_it(pipe: WakePipe) -> None:
    timer = threading.Timer(0.02, pipe.wake)
    timer.start()
    assert pipe.wait(60) is Woken.CALL
    timer.join()


def test_after_a_request_to_stop_it_never_waits(pipe: WakePipe) -> None:
    timer = threading.Timer(0.02, pipe.request_stop)
    timer.start()
    assert pipe.wait(60) is Woken.STOP
    assert pipe.wait(60) is Woken.STOP
    assert pipe.sleep(60)
    assert pipe.is_stopping()
    timer.join()


def test_a_sleep_that_is_woken_is_not_a_request_to_stop(pipe: WakePipe) -> None:
    pipe.wake()
    assert not pipe.sleep(60)


class FakeAlarm:
    """A readable socket with urgent data, as POLLPRI has it."""

    def __init__(self, meaning: list[bool]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._other = socket.create_connection(server.getsockname())
            self._mine, _ = server.accept()
        self.meaning = meaning

    def ring(self) -> None:
        self._other.send(b"!", socket.MSG_OOB)

    def descriptors(self) -> tuple[int, ...]:
        return (self._mine.fileno(),)

    def means_something(self, fd: int) -> bool:
        assert fd == self._mine.fileno()
        self._mine.recv(1, socket.MSG_OOB)
        if not (answer := self.meaning.pop(0)):
            self.ring()
        return answer

    def close(self) -> None:
        self._mine.close()
        self._other.close()


def test_an_alarm_that_means_something_ends_it() -> None:
    alarm = FakeAlarm([False, False, True])
    pipe = WakePipe(alarm)
    alarm.ring()
    assert pipe.wait(60) is Woken.ALARM
    assert alarm.meaning == []
    pipe.close()
    alarm.close()


@pytest.fixture
def signalled(pipe: WakePipe) -> Iterator[WakePipe]:
    """One that SIGUSR1 stops."""
    before = signal.getsignal(signal.SIGUSR1)
    pipe.stop_on(signal.SIGUSR1)
    yield pipe
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_every_wait_from_then_on(signalled: WakePipe) -> None:
    send_soon()
    assert signalled.wait(60) is Woken.STOP
    assert signalled.wait(60) is Woken.STOP


def test_a_signal_that_another_thread_took_ends_it(signalled: WakePipe) -> None:
    threading.Timer(0.05, take_elsewhere).start()
    assert signalled.wait(60) is Woken.STOP


@pytest.mark.parametrize("kind", [WakePipe, InterruptibleWakePipe])
def test_a_signal_after_the_end_does_nothing(kind: type[WakePipe]) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    late = kind()
    late.stop_on(signal.SIGUSR1)
    late.close()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert late.is_stopping()
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def interruptible() -> Iterator[InterruptibleWakePipe]:
    before = signal.getsignal(signal.SIGUSR1)
    made = InterruptibleWakePipe()
    made.stop_on(signal.SIGUSR1)
    yield made
    made.close()
    signal.signal(signal.SIGUSR1, before)


def send_soon() -> None:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()


def test_a_signal_interrupts_a_question(interruptible: InterruptibleWakePipe) -> None:
    silent, other = socket.socketpair()
    with silent, other:
        silent.settimeout(60)
        send_soon()
        began = time.monotonic()
        with pytest.raises(Interrupted), interruptible.interrupting():
            silent.recv(1)
        assert time.monotonic() - began < 30
    assert interruptible.is_stopping()


def take_elsewhere() -> None:
    """Another thread takes the signal: the main one's system call is not interrupted by it."""
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)


def test_a_signal_that_another_thread_took_interrupts_a_question(
    interruptible: InterruptibleWakePipe,
) -> None:
    """So it goes with two in a row."""
    silent, other = socket.socketpair()
    with silent, other:
        silent.settimeout(20)
        threading.Timer(0.05, take_elsewhere).start()
        began = time.monotonic()
        with pytest.raises(Interrupted), interruptible.interrupting():
            silent.recv(1)
        assert time.monotonic() - began < 10


def test_outside_of_a_question_nothing_is_raised(interruptible: InterruptibleWakePipe) -> None:
    with interruptible.interrupting():
        pass
    os.kill(os.getpid(), signal.SIGUSR1)
    assert interruptible.sleep(60)


def test_after_a_request_to_stop_nothing_is_asked(interruptible: InterruptibleWakePipe) -> None:
    interruptible.request_stop()
    with pytest.raises(Interrupted), interruptible.interrupting():
        pytest.fail("it was asked")


def test_a_question_that_fails_leaves_nothing_behind(interruptible: InterruptibleWakePipe) -> None:
    with pytest.raises(OSError, match="broken"), interruptible.interrupting():
        raise OSError("broken")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert interruptible.is_stopping()


PROGRAM = """
import signal
from slackwater.runtime.wakeup import {kind}
pipe = {kind}()
pipe.stop_on(signal.SIGTERM, signal.SIGINT)
print("ready", flush=True)
while not pipe.sleep(60):
    pass
print("ended", flush=True)
"""


@pytest.mark.parametrize("kind", [WakePipe, InterruptibleWakePipe])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_program(kind: type[WakePipe], number: int) -> None:
    program = PROGRAM.format(kind=kind.__name__)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.stdout.read() == "ended\n"
        assert child.wait(30) == 0
