"""The agent's endpoint: a listener beside the loop. Imports much, so it is imported late.

Owns the listener's life and the note of it in the state folder. What is answered is endpoint_door's
and endpoint_routes'; sockets and their bounds are record.listener's.
"""

import os
from collections.abc import Callable

from slackwater.agent.board import Board
from slackwater.agent.endpoint_door import Door, respond
from slackwater.agent.endpoint_note import Address, Note, remove_note, write_note
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.record.http_exchange import Answer, Request
from slackwater.record.listener import Complain, Listener

_TOKEN_BYTES = 32


class Endpoint:
    """Guards the listener, and the note of it in the state folder."""

    def __init__(self, listener: Listener, address: Address, state: str) -> None:
        #: With the port that was found, where any was asked for.
        self.address = address
        self._listener = listener
        self._state = state

    @classmethod
    def open(
        cls,
        address: Address,
        state: str,
        board: Board,
        clock: Callable[[], Micros],
        complain: Complain,
    ) -> "Endpoint | Gap":
        """Listens from now on. Without a state folder nothing is noted, and nobody may order."""
        token = os.urandom(_TOKEN_BYTES).hex() if state else ""
        started = clock()

        def answer(request: Request) -> Answer:
            return respond(Door(board, bound, started, token), request, clock())

        try:
            listener = Listener(address.host, address.port, answer, complain)
        except OSError as error:
            return Gap(f"cannot listen on {address}: {error.strerror}")
        bound = Address(address.host, listener.port)
        unnoted = write_note(state, Note(bound, token)) if state else None
        if unnoted is not None:
            complain(unnoted.reason)
        listener.start()
        return cls(listener, bound, state)

    def close(self) -> None:
        """No further request; one that is being answered may still end."""
        if self._state:
            remove_note(self._state)
        self._listener.close()
