"""What benchmarks/normalization.py makes of its times."""

import pytest

from benchmarks.normalization import rows


@pytest.mark.parametrize(
    ("fast", "slow", "normalized", "missed"),
    [
        (4.0, 6.0, 6.0, []),
        (4.0, 6.0, 6.29, []),
        (4.0, 6.0, 6.31, ["fast and slow machine apart, with normalization"]),
        (4.0, 6.0, 5.69, ["fast and slow machine apart, with normalization"]),
        # Not as slow as it should be: something else held the fast one back.
        (5.0, 6.0, 6.0, ["apart without it, beside the ratio of 1.5"]),
    ],
)
def test_bars(fast: float, slow: float, normalized: float, missed: list[str]) -> None:
    found = rows({"fast": fast, "slow": slow, "normalized": normalized})
    assert [each.what for each in found if each.missed()] == missed
