"""Prometheus as one round asks it: once it was silent, it is not asked again.

Owns that memory. Twenty namespaces would else wait half a minute each, one after the other, for a
server that is not there. An answer that is an error is about its query, and is not kept. A query
that took too long may have been that one query: the next has a tenth of the time to show it, so
that one large namespace does not keep the others from being judged.
"""

import msgspec

from slackwater.model.units import Micros
from slackwater.rebalancer.prometheus import (
    Answer,
    DeadlineExceededError,
    Prometheus,
    PrometheusUnreachableError,
)
from slackwater.settings.rotation import PrometheusSettings

_SHARE = 10


class RoundPrometheus(Prometheus):
    """Guards what the first silence said. A new one for each round."""

    def __init__(self, settings: PrometheusSettings) -> None:
        super().__init__(settings)
        brief = Micros(max(1000, settings.timeout // _SHARE))
        self._brief = Prometheus(msgspec.structs.replace(settings, timeout=brief))
        self._late = ""
        self._silence = ""

    def ask(self, text: str, at: float | None = None) -> Answer:
        """Raises the same again, once it is known that nobody answers."""
        if self._silence:
            raise PrometheusUnreachableError(self._silence)
        try:
            found = self._brief.ask(text, at) if self._late else super().ask(text, at)
        except DeadlineExceededError as late:
            self._silence, self._late = self._late, self._late or str(late)
            raise DeadlineExceededError(self._late) from None
        except PrometheusUnreachableError as silent:
            self._silence = str(silent)
            raise
        self._late = ""
        return found
