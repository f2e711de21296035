"""Children of the demo: heard, ended by their own id, interrupted at no wrong moment."""

import os
import signal
import threading
import time
from typing import cast

import pytest

from slackwater.demo.crew import Crew
from slackwater.demo.interruption import deferred, endings_raised, undisturbed
from slackwater.demo.tree import Tree


class Groups:
    """Who was put where."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, int]] = []

    def enter(self, path: str, pid: int) -> None:
        self.entered.append((path, pid))


def crew() -> tuple[Crew, Groups]:
    groups = Groups()
    return Crew(cast("Tree", groups)), groups


def test_a_child_is_put_into_its_group_and_heard() -> None:
    made, groups = crew()
    said: list[str] = []
    child = made.start("slackwater", ["version"], "group", said.append)
    assert child.wait_silent(60)
    made.end(child)
    assert groups.entered == [("group", child.process.pid)]
    assert len(said) == 1
    assert child.process.returncode == 0


def test_all_are_ended_the_last_one_first() -> None:
    made, _ = crew()
    children = [made.start("slackwater.demo.hog", [], "group", print) for _ in range(3)]
    assert all(os.getpgid(child.process.pid) == child.process.pid for child in children)
    made.end_all()
    assert [child.process.returncode for child in children] == [-signal.SIGKILL] * 3
    assert all(child.is_silent() for child in children)
    made.end_all()


def test_one_that_is_asked_may_end_by_itself() -> None:
    made, _ = crew()
    child = made.start("slackwater.demo.hog", [], "group", print)
    child.ask_to_end()
    made.end(child)
    assert child.process.returncode == -signal.SIGTERM


def test_a_child_that_cannot_enter_its_group_is_still_ended() -> None:
    class Closed(Groups):
        def enter(self, path: str, pid: int) -> None:
            raise OSError(28, "No space left on device", f"{path} for {pid}")

    made = Crew(cast("Tree", Closed()))
    with pytest.raises(OSError, match="No space"):
        made.start("slackwater.demo.hog", [], "group", print)
    (child,) = made._children
    made.end_all()
    assert child.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_endings_unwind(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, endings_raised():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_nothing_interrupts_an_undisturbed_block() -> None:
    done = []
    with undisturbed():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        done.append(True)
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_deferred_interrupt_comes_at_the_end() -> None:
    done = []

    def interrupted() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]


def test_without_an_interrupt_nothing_is_raised() -> None:
    with deferred():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_a_child_starts_leaves_no_orphan() -> None:
    made, groups = crew()
    main = threading.main_thread()
    assert threading.current_thread() is main
    enter = groups.enter

    def interrupted(path: str, pid: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        enter(path, pid)

    groups.enter = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.start("slackwater.demo.hog", [], "group", print)
    ((_, pid),) = groups.entered
    made.end_all()
    assert not os.path.exists(f"/proc/{pid}")
