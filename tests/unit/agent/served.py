"""An agent's endpoints on real sockets, for tests that ask them."""

import contextlib
from typing import Any

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.endpoint_server import EndpointAddresses, serving_endpoints
from slackwater.agent.shared_state import ReleaseDone, SharedState
from slackwater.model.units import Micros
from slackwater.record.journal import JournalEntry
from slackwater.runtime.http_exchange import ListenAddress
from tests.unit.agent.shared_states import seconds, shared
from tests.unit.runtime.http_asking import ask_all

ANY_PORT = ListenAddress("127.0.0.1", 0)
ENTRY = JournalEntry(3, Micros(7), "quota of kubepods/besteffort", result="applied")


class Served:
    """Endpoints, what was reported about them, and a loop that releases at once."""

    def __init__(self, state: str, address: ListenAddress = ANY_PORT) -> None:
        made = shared()
        self.shared = SharedState(made.journal, made.tally, self._wake)
        self.released = 0
        self.reports: list[str] = []
        self.now = seconds(100)
        self.socket = socket_path(state)
        self._open = contextlib.ExitStack()
        serving = serving_endpoints(
            EndpointAddresses(address, self.socket),
            self.shared,
            lambda: self.now,
            self.reports.append,
        )
        found = self._open.enter_context(serving)
        assert found is not None
        self.address = found

    def close(self) -> None:
        self._open.close()

    def _wake(self) -> None:
        self.released += 1
        self.shared.finish_release(ReleaseDone((ENTRY,), 0))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """Over TCP."""
        status, _, content = self.ask_all(method, path, body, **headers)
        return status, content

    def ask_all(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        return ask_all(self.address, method, path, body, **headers)

    def ask_socket(self, method: str, path: str) -> tuple[int, bytes]:
        status, _, content = ask_all(self.socket, method, path)
        return status, content
