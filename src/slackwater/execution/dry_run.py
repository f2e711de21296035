"""The executor's stand-in of a dry run: says what would be written, and writes nothing.

Owns no ledger, so it runs beside a real agent; what that one holds is not told apart here.
"""

from collections.abc import Collection, Iterable

from slackwater.model.knob import KnobKey
from slackwater.model.ledger import Adoption
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.snapshot import Held, WritePrecision


class DryRun:
    def __init__(self, page_size: int) -> None:
        self._page_size = page_size

    def apply(self, changes: Iterable[Change]) -> list[Outcome]:
        return [Outcome(change, Result.PLANNED) for change in changes]

    def adopt(self) -> Adoption:
        return Adoption((), ())

    def release(self) -> list[Outcome]:
        return []

    def let_go(self, _knobs: Collection[tuple[int, str]]) -> list[Outcome]:
        return []

    def held(self) -> tuple[Held, ...]:
        return ()

    def off(self) -> frozenset[KnobKey]:
        return frozenset()

    def precision(self) -> WritePrecision:
        return WritePrecision(self._page_size)
