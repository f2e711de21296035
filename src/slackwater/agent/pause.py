"""Why an agent decides nothing: its values were released by hand, or in the whole cluster.

By hand is noted in a file, and lasts until `slackwater resume`. In the cluster is asked for by the
settings' ConfigMap and noted nowhere here: it goes with that ConfigMap, so that an uninstallation
leaves no pause behind. A ConfigMap that is gone, or cannot be read, changes nothing for the agents
that run: it goes a moment before they do.
"""

from collections.abc import Callable

from slackwater.agent.pause_file import PauseFile
from slackwater.model.units import Micros

RELEASED_BY_HAND = "released manually; `slackwater resume` ends it"
RELEASED_EVERYWHERE = "released on every node; `slackwater resume --every-node` ends it"
#: Between two tries to release what could not be.
_TRY_AGAIN = Micros(5_000_000)


def nobody_asks() -> str | None:
    return None


class Pause:
    """Guards both reasons. `asked` is the word of the ConfigMap; None where that is not heard."""

    def __init__(self, pause_file: PauseFile | None, asked: Callable[[], str | None]) -> None:
        self._pause_file = pause_file
        self._asked = asked
        self._by_hand = False
        #: Whether that is noted, so that who removes the note ends it.
        self._noted = False
        self._word = ""
        self._left: int | None = None
        self._due = Micros(0)

    @property
    def because(self) -> str:
        """Empty where the agent decides."""
        if self._by_hand:
            return RELEASED_BY_HAND
        return RELEASED_EVERYWHERE if self._word else ""

    def adopt(self) -> bool:
        """At the start; whether an earlier run was released by hand."""
        self._by_hand = self._noted = self._pause_file is not None and self._pause_file.is_there()
        return self._by_hand

    def begin_by_hand(self) -> str:
        """Why it cannot be noted; empty where it is."""
        failed = self._pause_file.write() if self._pause_file else None
        self._by_hand, self._noted = True, self._pause_file is not None and failed is None
        return failed.reason if failed else ""

    def ends_by_hand(self) -> bool:
        """Whether somebody has just removed the note."""
        if not self._noted or self._pause_file is None or self._pause_file.is_there():
            return False
        self._by_hand = self._noted = False
        return True

    def ends_everywhere(self) -> bool:
        """Whether the ConfigMap has just stopped asking."""
        if not self._word or self._asked() != "":
            return False
        self._word = ""
        return True

    def is_release_due(self, at: Micros) -> bool:
        """Whether the ConfigMap asks for a release that is not carried out yet."""
        word = self._asked()
        if word and word != self._word:
            self._word, self._left, self._due = word, None, at
        return bool(self._word) and self._left != 0 and at >= self._due

    def note_left(self, left: int, at: Micros) -> None:
        """How many values that release could not put back."""
        self._left, self._due = left, Micros(at + _TRY_AGAIN)

    def carried_out(self) -> str:
        """The ConfigMap's word, once every value is back."""
        return self._word if self._left == 0 else ""
