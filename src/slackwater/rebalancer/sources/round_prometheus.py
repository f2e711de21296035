"""Prometheus as one round of the rebalancer asks it: a server that is not there is asked once."""

import msgspec

from slackwater.http.prometheus_api import (
    PrometheusTimeoutError,
    PrometheusUnreachableError,
    QueryResult,
)
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.model.units import Micros
from slackwater.settings.prometheus import PrometheusSettings

#: Once a query took too long, the next gets this part of the time.
_TIMEOUT_SHARE = 10


class RoundPrometheusClient(PrometheusClient):
    """Prometheus during one round: once it was unreachable, it is not asked again. Otherwise twenty
    namespaces would wait half a minute each for a server that is not there.

    An error in an answer is about its query and is not remembered. A query that took too long may
    have been that one query: the next gets a tenth of the time to show it, so that one large
    namespace does not keep the others from being judged."""

    def __init__(self, settings: PrometheusSettings) -> None:
        super().__init__(settings)
        brief = Micros(max(1000, settings.timeout // _TIMEOUT_SHARE))
        self._brief = PrometheusClient(msgspec.structs.replace(settings, timeout=brief))
        self._late = ""
        self._silence = ""

    def ask(self, text: str, at: float | None = None) -> QueryResult:
        """Raises the remembered error at once, if there is one."""
        if self._silence:
            raise PrometheusUnreachableError(self._silence)
        try:
            found = self._brief.ask(text, at) if self._late else super().ask(text, at)
        except PrometheusTimeoutError as late:
            self._silence, self._late = self._late, self._late or str(late)
            raise PrometheusTimeoutError(self._late) from None
        except PrometheusUnreachableError as silent:
            self._silence = str(silent)
            raise
        self._late = ""
        return found
