"""Boards and doors for tests of the endpoint."""

from slackwater.agent.board import Board, Condition
from slackwater.agent.endpoint_door import Door
from slackwater.agent.endpoint_note import Address
from slackwater.model.units import Micros
from slackwater.record.journal import Journal
from slackwater.record.metrics import Tally

SECOND = 1_000_000
TOKEN = "the-token"  # noqa: S105
LOOPBACK = Address("127.0.0.1", 10480)


def board() -> Board:
    return Board(Journal(10), Tally(), lambda: None)


def seconds(count: float) -> Micros:
    return Micros(int(count * SECOND))


def door(shown: Board | None = None, address: Address = LOOPBACK, token: str = TOKEN) -> Door:
    return Door(shown or board(), address, seconds(100), token)


def ended(second: float, **said: object) -> Condition:
    return Condition(ended=seconds(second), **said)  # type: ignore[arg-type]
