"""What is on the board, as the view from which explanations and overviews are made."""

import time

from slackwater.agent.board import Board
from slackwater.model.units import Micros
from slackwater.record.view import View


def view_of(board: Board, at: Micros) -> View:
    """`at` is now by the agent's clock: with the time of day it tells what the clock is off by."""
    condition = board.condition
    return View(
        ticks=board.journal.ticks,
        off=condition.off,
        problems=condition.problems,
        blind=condition.blind,
        lost=condition.lost,
        paused=condition.paused,
        kept=condition.kept,
        offset=Micros(time.time_ns() // 1000 - at),
        version=board.version,
        changed=board.journal.changed,
        link=board.link(at),
    )
