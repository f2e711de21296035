"""An endpoint on a real socket of loopback, for tests that ask it."""

from typing import Any

from slackwater.agent.endpoint_server import EndpointServer
from slackwater.agent.shared_state import ReleaseDone, SharedState
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.runtime.http_exchange import ListenAddress
from tests.unit.agent.shared_states import seconds, shared
from tests.unit.runtime.http_asking import ask_all

ANY_PORT = ListenAddress("127.0.0.1", 0)
ENTRY = JournalEntry(3, Micros(7), "quota of kubepods/besteffort", result="applied")


class Served:
    """An endpoint, what it complained about, and a loop that releases at once."""

    def __init__(self, state: str, address: ListenAddress = ANY_PORT) -> None:
        made = shared()
        self.shared = SharedState(made.journal, made.tally, self._wake)
        self.released = 0
        self.reports: list[str] = []
        self.now = seconds(100)
        self.endpoint = EndpointServer(
            address, state, self.shared, lambda: self.now, self.reports.append
        )

    @property
    def complaints(self) -> list[str]:
        """What was reported beside that it listens."""
        return [each for each in self.reports if not each.startswith("listening on http://")]

    def _wake(self) -> None:
        self.released += 1
        self.shared.finish_release(ReleaseDone((ENTRY,), 0))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        status, _, content = self.ask_all(method, path, body, **headers)
        return status, content

    def ask_all(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        return ask_all(self.endpoint.address, method, path, body, **headers)
