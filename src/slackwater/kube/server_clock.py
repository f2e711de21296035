"""The time of day by the API server, which wrote the timestamps that it is compared with.

A node whose clock is ahead would otherwise end a cool-down early, and take young pods for old ones.
"""

import time
from collections.abc import Callable

from slackwater.http.errors import RequestError
from slackwater.kube.client import Client

#: Seconds between two questions: clocks run apart by less than a second a day.
_ASK_EVERY = 60.0


class ServerClock:
    """Seconds since 1970. Where the server was never heard it is this machine's time of day."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._clock = clock
        self._wall = wall
        self._asked_at: float | None = None
        #: What to add to the monotonic clock.
        self._offset: float | None = None

    def __call__(self) -> float:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= _ASK_EVERY:
            self._asked_at = now
            self._ask()
        return self._wall() if self._offset is None else self._clock() + self._offset

    def _ask(self) -> None:
        """An answer's Date is cut to whole seconds, so half of one is added; one that is late by
        less than the timeout is as good."""
        try:
            said = self._client.server_time()
        except RequestError:
            return  # the round's own requests will tell why
        if said is not None:
            self._offset = said + 0.5 - self._clock()
