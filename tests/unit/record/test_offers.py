"""What is said about a node's offers."""

import msgspec
import pytest

from slackwater.model.decision import OfferReport
from slackwater.record.offers import describe_budget, describe_change, offer_row

OFFER = OfferReport(
    "gocrane.io/cpu", "m", 1000, 4, 2, allocatable=8_000, reserve=200, used=2_000, predicted=1_800,
    forecast="own history of 2 h", budget=4_400, claim=4_400, shown=4,
)  # fmt: skip


@pytest.mark.parametrize(
    ("worth", "budget", "sentence"),
    [
        (
            100,
            4_400,
            "allocatable 8000m × 80 % − unreclaimable 2000m = budget 4400m; claim 4400m",
        ),
        (
            150,
            6_600,
            (
                "(allocatable 8000m × 80 % − unreclaimable 2000m) × 1.50 (normalized CPU) = "
                "budget 6600m; claim 4400m"
            ),
        ),
    ],
)
def test_the_budget_says_which_unit_it_is_in(worth: int, budget: int, sentence: str) -> None:
    offer = msgspec.structs.replace(OFFER, worth=worth, budget=budget)
    assert describe_budget(offer_row(offer)) == sentence


def test_a_change_says_what_it_was() -> None:
    said = describe_change(OFFER, 6)
    assert said.startswith("elastic resource gocrane.io/cpu: 4000m offered (was 6000m): allocat")
    blind = msgspec.structs.replace(OFFER, budget=None, missing="usage is not known: no sample")
    assert describe_change(blind, None).endswith("4000m offered: usage is not known: no sample")
