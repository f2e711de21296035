"""An agent on a simulated node behind its real unix socket, with the real routes: the page's tests
need a node on which something happens, and the same each time.
"""

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.endpoint_server import EndpointAddresses, serving_endpoints
from slackwater.agent.shared_state import SharedState
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.record.agent_view import RoundState
from slackwater.record.journal import Journal, TickRecord
from slackwater.record.metrics import TickCounters
from slackwater.simulation.scenario_file import read_scenario
from slackwater.simulation.simulation_run import Simulation

SCENARIO = Path(__file__).parent / "scenario.yaml"
#: By now the spike has come, and the rule was triggered.
SEEN = Micros(100_000_000)
_KEPT = 60


class SimulatedAgent:
    """Guards the simulation's thread. It stops after SEEN, and goes on tick by tick on request."""

    def __init__(self, folder: str, kept: int = _KEPT) -> None:
        self.socket = socket_path(folder)
        self.shared = SharedState(Journal(kept), TickCounters(), lambda: None)
        self._simulation = Simulation(read_scenario(str(SCENARIO)), folder)
        self._may_go = threading.Semaphore(0)
        self._ready = threading.Event()
        self._told = threading.Semaphore(0)
        self._ending = False
        self._now = Micros(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.serving = contextlib.ExitStack()

    @property
    def tick(self) -> int:
        latest = self.shared.journal.latest
        return latest.snapshot.tick if latest else 0

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def step(self) -> int:
        """One more tick; returns its number."""
        self._may_go.release()
        self._told.acquire()
        return self.tick

    def end(self) -> None:
        self._ending = True
        self._may_go.release()
        self._thread.join()
        self._simulation.close()

    def close_socket(self) -> None:
        """As an agent that ended."""
        self.serving.close()

    def clock(self) -> Micros:
        return self._now

    def _run(self) -> None:
        try:
            with contextlib.suppress(_EndedError):
                self._simulation.run(self._watch)
        finally:
            self._ready.set()  # a mistake here must not leave the test waiting

    def _watch(self, at: Micros, record: TickRecord | Gap) -> None:
        self._now = at
        self.shared.request_detail(at)
        if isinstance(record, TickRecord):
            self.shared.add_tick(record)
            self.shared.end_round(RoundState(ended=at))
        if at < SEEN:
            return
        if self._ready.is_set():
            self._told.release()
        self._ready.set()
        self._may_go.acquire()
        if self._ending:
            raise _EndedError


class _EndedError(Exception):
    """The test is over."""


@contextlib.contextmanager
def simulated_agent(kept: int = _KEPT) -> Iterator[SimulatedAgent]:
    """Its socket serves inside the block."""
    with tempfile.TemporaryDirectory(prefix="slackwater-ui-") as folder:
        made = SimulatedAgent(folder, kept)
        made.start()
        addresses = EndpointAddresses(None, made.socket)
        try:
            with made.serving:
                made.serving.enter_context(
                    serving_endpoints(addresses, made.shared, made.clock, print)
                )
                yield made
        finally:
            made.end()
