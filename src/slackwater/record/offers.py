"""What is said about the extended resources that a node sells: rows behind -o json, the sentences
of `explain` and `top`, metrics, and the event when an offer changes.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.model.decision import OfferReport
from slackwater.record import metric_table as table
from slackwater.record.agent_view import AgentView
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import MetricSample

_MILLI = "m"
#: In hundredths: CPU is not normalized.
_SAME_WORTH = 100
#: Metrics are in cores and bytes.
_PER_UNIT = {_MILLI: 1000}


class OfferRow(msgspec.Struct, frozen=True, rename="camel"):
    """One extended resource: what is offered and every number behind it, in `unit`: m, milliCPU, or
    B, bytes. `offered`, `shown` and `allocated` are as the Node has them: 1 is `scale` of the unit.
    `worth` is in hundredths: what is measured counts CPUs of the machine, what is offered, the
    budget and the claim count normalized ones. Null is not known. docs/reference/oversold.md says
    what each one means."""

    resource: str
    unit: str
    scale: int
    offered: int
    shown: int | None
    allocated: int
    allocatable: int | None
    reserve: int
    worth: int
    used: int | None
    exclusive_idle: int
    elastic_used: int
    predicted: int | None
    forecast: str
    unreclaimable: int | None
    budget: int | None
    claim: int
    exceeded: int
    missing: str = ""

    def amount(self, number: int | None) -> str:
        """With its unit, for people: 1500m, 12.0 GiB."""
        if number is None:
            return "unknown"
        return f"{number}m" if self.unit == _MILLI else f"{number / (1 << 30):.2f} GiB"

    def sold(self) -> str:
        """gocrane.io/cpu 3 offered, 2 of them to pods"""
        if self.unit == _MILLI:
            return f"{self.resource} {self.offered} offered, {self.allocated} allocated to pods"
        offered, allocated = self.amount(self.offered), self.amount(self.allocated)
        return f"{self.resource} {offered} offered, {allocated} allocated to pods"


def latest_offers(record: TickRecord | None) -> Iterator[OfferReport]:
    for line in record.story.told if record else ():
        yield from line.offers


def offer_rows(view: AgentView) -> tuple[OfferRow, ...]:
    return tuple(map(offer_row, latest_offers(view.latest)))


def offer_row(offer: OfferReport) -> OfferRow:
    known = msgspec.structs.asdict(offer)
    return OfferRow(**known, unreclaimable=offer.unreclaimable())


def describe_budget(row: OfferRow) -> str:
    """allocatable 8000m × 80 % − unreclaimable 2000m = budget 4400m; claim 4400m"""
    idle = (
        f"allocatable {row.amount(row.allocatable)} × {100 - row.reserve / 10:g} % "
        f"− unreclaimable {row.amount(row.unreclaimable)}"
    )
    if row.worth != _SAME_WORTH:
        idle = f"({idle}) × {row.worth / 100:.2f} (normalized CPU)"
    return f"{idle} = budget {row.amount(row.budget)}; claim {row.amount(row.claim)}"


def describe_unreclaimable(row: OfferRow) -> str:
    """used 2500m + idle alone 0m - sold and used 500m; predicted 1800m by own history of 2 h"""
    idle = f" + idle and held alone {row.amount(row.exclusive_idle)}" if row.exclusive_idle else ""
    sold = f" − by pods that bought it {row.amount(row.elastic_used)}" if row.elastic_used else ""
    predicted = f"predicted {row.amount(row.predicted)}"
    source = f" by {row.forecast}" if row.forecast else ""
    return f"used {row.amount(row.used)}{idle}{sold}; {predicted}{source}"


def offer_samples(record: TickRecord) -> Iterator[MetricSample]:
    for offer in latest_offers(record):
        per_unit = _PER_UNIT.get(offer.unit, 1)
        label = (offer.resource,)
        amounts = (
            (table.OVERSOLD_SOLD, offer.offered * offer.scale),
            (table.OVERSOLD_ALLOCATED, offer.allocated * offer.scale),
            (table.OVERSOLD_USED, offer.used),
            (table.OVERSOLD_PREDICTED, offer.predicted),
        )
        for metric, amount in amounts:
            if amount is not None:
                yield MetricSample(metric, amount / per_unit, label)
        yield MetricSample(table.OVERSOLD_EXCEEDED, offer.exceeded, label)


def find_changed_offers(
    record: TickRecord, before: Mapping[str, int]
) -> tuple[tuple[OfferReport, ...], dict[str, int]]:
    """Those whose amount is another than the one told last, and what is told by then."""
    now = {each.resource: each.offered for each in latest_offers(record)}
    changed = tuple(
        each for each in latest_offers(record) if before.get(each.resource) != each.offered
    )
    return changed, now


def describe_change(offer: OfferReport, before: int | None) -> str:
    """As an event says it."""
    row = offer_row(offer)
    was = "" if before is None else f" (was {row.amount(before * offer.scale)})"
    why = offer.missing if offer.budget is None else describe_budget(row)
    amount = row.amount(offer.offered * offer.scale)
    return f"elastic resource {offer.resource}: {amount} offered{was}: {why}"
