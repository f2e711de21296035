"""Shared states for tests of the endpoint."""

from slackwater.agent.endpoint_server import NetworkContext
from slackwater.agent.shared_state import SharedState
from slackwater.model.units import Micros
from slackwater.record.agent_view import RoundState
from slackwater.record.journal import Journal
from slackwater.record.metrics import TickCounters
from slackwater.runtime.http_exchange import ListenAddress

SECOND = 1_000_000
LOOPBACK = ListenAddress("127.0.0.1", 10480)


def shared() -> SharedState:
    return SharedState(Journal(10), TickCounters(), lambda: None)


def seconds(count: float) -> Micros:
    return Micros(int(count * SECOND))


def context(shown: SharedState | None = None, address: ListenAddress = LOOPBACK) -> NetworkContext:
    state = shown or shared()
    state.health.beat(seconds(100))
    return NetworkContext(state, address)


def ended(second: float, **said: object) -> RoundState:
    return RoundState(ended=seconds(second), **said)  # type: ignore[arg-type]
