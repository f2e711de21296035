"""Children of the demo: heard, ended by their own id, interrupted at no wrong moment."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from slackwater.demo import processes
from slackwater.demo.cgroup_tree import DemoTree
from slackwater.demo.measurements import AgentEntry, MeasurementError
from slackwater.demo.processes import (
    AgentProcess,
    ChildProcesses,
    agent_environment,
    defer_signals,
    ignore_signals,
    parse_entry,
    raise_on_termination,
)


class Groups:
    """Who was put where."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, int]] = []

    def enter(self, path: str, pid: int) -> None:
        self.entered.append((path, pid))


def children() -> tuple[ChildProcesses, Groups]:
    groups = Groups()
    return ChildProcesses(cast("DemoTree", groups)), groups


def test_a_child_is_put_into_its_group_and_heard() -> None:
    made, groups = children()
    said: list[str] = []
    child = made.start("slackwater", ["version"], "group", said.append)
    assert child.wait_for_output(60)
    made.end(child)
    assert groups.entered == [("group", child.process.pid)]
    assert len(said) == 1
    assert child.process.returncode == 0


def test_all_are_ended_the_last_one_first() -> None:
    made, _ = children()
    started = [made.start("slackwater.demo.hog", [], "group", print) for _ in range(3)]
    assert all(os.getpgid(child.process.pid) == child.process.pid for child in started)
    made.end_all()
    assert [child.process.returncode for child in started] == [-signal.SIGKILL] * 3
    assert all(child.output_ended() for child in started)
    made.end_all()


def test_one_that_is_asked_may_end_by_itself() -> None:
    made, _ = children()
    child = made.start("slackwater.demo.hog", [], "group", print)
    child.terminate()
    made.end(child)
    assert child.process.returncode == -signal.SIGTERM


def test_a_child_that_cannot_enter_its_group_is_still_ended() -> None:
    class Closed(Groups):
        def enter(self, path: str, pid: int) -> None:
            raise OSError(28, "No space left on device", f"{path} for {pid}")

    made = ChildProcesses(cast("DemoTree", Closed()))
    with pytest.raises(OSError, match="No space"):
        made.start("slackwater.demo.hog", [], "group", print)
    (child,) = made._children
    made.end_all()
    assert child.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_endings_unwind(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, raise_on_termination():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_nothing_interrupts_an_undisturbed_block() -> None:
    done = []
    with ignore_signals():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        done.append(True)
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_deferred_interrupt_comes_at_the_end() -> None:
    done = []

    def interrupted() -> None:
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]


def test_without_an_interrupt_nothing_is_raised() -> None:
    with defer_signals():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_a_child_starts_leaves_no_orphan() -> None:
    made, groups = children()
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '{"tick":2,"at":5,"what":"quota of a/b","before":"1m","after":"2m","because":"p: s"}',
            AgentEntry(1.5, "quota of a/b", "1m", "2m", "p: s"),
        ),
        ('{"what":"best_effort_share","because":"held: x"}',
         AgentEntry(1.5, "best_effort_share", because="held: x")),
        # An event repeats what the effect says.
        ('{"what":"NodeCPUThrottleEvent","after":"2m","event":{"name":"e"}}', None),
        ("Traceback (most recent call last):", None),
        ('{"tick":1}', None),
        ("[1, 2]", None),
        ('{"what":"\ud800"}', None),
        ("[" * 5000, None),
        ('{"what":' + "[" * 5000, None),
        ("", None),
    ],
)  # fmt: skip
def test_a_line(text: str, line: AgentEntry | None) -> None:
    assert parse_entry(text, 1.5) == line


def test_nobody_sets_the_agent_from_outside() -> None:
    said = {
        "PATH": "/bin",
        "SLACKWATER_PERIOD": "9s",
        "SLACKWATER_LISTEN": "x",
        "SLACKWATER_CGROUP_VERSION": "v2",
    }
    assert agent_environment(said) == {"PATH": "/bin", "SLACKWATER_CGROUP_VERSION": "v2"}


class FakeChild:
    """A process that runs until it is ended."""

    def __init__(self) -> None:
        self.process = self
        self.asked = 0
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.asked += 1


class FakeCrew:
    """Notes what was started, and speaks for it."""

    def __init__(self, says: tuple[str, ...] = ()) -> None:
        self.child = FakeChild()
        self.started: list[tuple[str, list[str], str, dict[str, str]]] = []
        self.ended: list[FakeChild] = []
        self._says = says

    def start(
        self,
        module: str,
        arguments: list[str],
        group: str,
        hear: Callable[[str], None],
        environ: dict[str, str],
    ) -> FakeChild:
        self.started.append((module, arguments, group, environ))
        for text in self._says:
            hear(text)
        return self.child

    def end(self, child: FakeChild) -> None:
        self.ended.append(child)


class FakeTree:
    cpus, kubepods, agent = 3, "top/kubepods", "top/agent"

    def __init__(self, *quotas: float | None) -> None:
        self._quotas = list(quotas)

    def quota(self) -> float | None:
        return self._quotas.pop(0) if len(self._quotas) > 1 else self._quotas[0]


OBJECTS = {"node.yaml": "kind: Node", "service.yaml": "kind: Pod"}


def started(children: FakeCrew, tree: FakeTree, folder: Path) -> AgentProcess:
    return AgentProcess(cast("ChildProcesses", children), cast("DemoTree", tree), folder, OBJECTS)


def test_the_agent_is_started_as_a_user_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_PERIOD", "9s")
    children = FakeCrew()
    started(children, FakeTree(None), tmp_path)
    ((module, arguments, group, environ),) = children.started
    assert (module, arguments[0], group) == ("slackwater", "agent", "top/agent")
    said = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert said == {
        "--standalone": f"{tmp_path}/node",
        "--state": f"{tmp_path}/state",
        "--kubepods": "top/kubepods",
        "--node": "demo",
        "--listen": "",
        "--on-exit": "release",
    }
    assert "SLACKWATER_PERIOD" not in environ
    written = {path.name: path.read_text() for path in (tmp_path / "node").iterdir()}
    assert written == OBJECTS


def test_the_objects_of_an_earlier_agent_are_gone(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "hog.yaml").write_text("kind: Pod")
    started(FakeCrew(), FakeTree(None), tmp_path)
    assert {path.name for path in (tmp_path / "node").iterdir()} == set(OBJECTS)


def test_it_waits_for_the_first_quota(tmp_path: Path) -> None:
    tree = FakeTree(None, None, 1.5)
    started(FakeCrew(), tree, tmp_path).wait_for_quota()
    assert tree.quota() == 1.5


def test_it_waits_for_the_first_words(tmp_path: Path) -> None:
    started(FakeCrew(("first",)), FakeTree(None), tmp_path).wait_for_start()


def test_an_agent_that_ended_before_its_first_words_is_told(tmp_path: Path) -> None:
    children = FakeCrew()
    agent = started(children, FakeTree(None), tmp_path)
    children.child.code = 2
    with pytest.raises(MeasurementError, match="did not start; the last that it said: nothing"):
        agent.wait_for_start()


def test_an_agent_that_ended_is_told_with_its_last_words(tmp_path: Path) -> None:
    children = FakeCrew(("first", "slackwater: the settings are wrong"))
    agent = started(children, FakeTree(None), tmp_path)
    children.child.code = 2
    with pytest.raises(MeasurementError, match="the last that it said: slackwater: the settings"):
        agent.wait_for_quota()


def test_a_silent_agent_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_START_TIMEOUT", 0.05)
    agent = started(FakeCrew(), FakeTree(None), tmp_path)
    with pytest.raises(MeasurementError, match="the last that it said: nothing"):
        agent.wait_for_quota()


def test_its_lines_have_the_phases_time(tmp_path: Path) -> None:
    children = FakeCrew(('{"what":"quota of a","after":"2m","because":"p: x"}', "not JSON"))
    agent = started(children, FakeTree(1.0), tmp_path)
    (line,) = agent.lines(time.monotonic() - 100)
    assert line.at == pytest.approx(100, abs=5)
    assert (line.what, line.after) == ("quota of a", "2m")


def test_it_is_asked_before_it_is_ended(tmp_path: Path) -> None:
    children = FakeCrew()
    started(children, FakeTree(1.0), tmp_path).end()
    assert children.child.asked == 1
    assert children.ended == [children.child]
