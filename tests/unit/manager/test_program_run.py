"""The whole manager in a thread, without an API server: alive, not ready, and gone when asked."""

import queue
import threading
from collections.abc import Iterator

import msgspec
import pytest

from slackwater.kube.informer import Informer
from slackwater.manager.program import run_manager
from slackwater.record.journal import JournalEntry
from slackwater.runtime.http_exchange import CannotListenError, ListenAddress
from slackwater.runtime.leadership import Candidate
from slackwater.runtime.wakeup import WakePipe
from tests.unit.kube.accesses import plain_access
from tests.unit.runtime.http_asking import ask_all

NOBODY = plain_access(1)  # nothing listens on port 1
CANDIDATE = Candidate("slackwater-system", "slackwater-manager", "me")


class RunningManager:
    def __init__(self) -> None:
        self.entries: queue.Queue[JournalEntry] = queue.Queue()
        self.pipe = WakePipe()
        anywhere = ListenAddress("127.0.0.1", 0)
        self._thread = threading.Thread(
            target=run_manager, args=(NOBODY, CANDIDATE, anywhere, self.pipe, self.entries.put)
        )
        self._thread.start()
        first = self.entries.get()
        assert first.because.startswith("listening on http://127.0.0.1:")
        self.address = ListenAddress("127.0.0.1", int(first.because.rpartition(":")[2]))

    def health(self, path: str) -> tuple[int, dict[str, object]]:
        status, _, body = ask_all(self.address, "GET", path)
        return status, msgspec.json.decode(body)

    def end(self) -> None:
        self.pipe.request_stop()
        self._thread.join()
        self.pipe.close()


@pytest.fixture
def manager() -> Iterator[RunningManager]:
    made = RunningManager()
    yield made
    made.end()


def test_without_an_api_server_it_is_healthy_and_not_ready(manager: RunningManager) -> None:
    while manager.entries.get().what != "leader":  # the end of the first round
        pass
    status, body = manager.health("/healthz")
    assert (status, body["ok"]) == (200, True)
    status, body = manager.health("/readyz")
    assert status == 503
    assert "Node: " in str(body["because"])


def break_informer(_informer: object) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_makes_it_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Informer, "_list_and_watch", break_informer)
    manager = RunningManager()
    try:
        while (answer := manager.health("/healthz"))[0] == 200:
            pass  # the threads are about to die
        assert "threads have died: " in str(answer[1]["because"])
    finally:
        manager.end()


def test_an_address_that_is_taken_ends_the_start(manager: RunningManager) -> None:
    pipe = WakePipe()
    with pytest.raises(CannotListenError):
        run_manager(NOBODY, CANDIDATE, manager.address, pipe, lambda _: None)
    pipe.close()
