"""What the forecasts' benchmark measures, and what it concludes."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import forecast
from benchmarks._forecast_series import make_series
from benchmarks._forecast_speed import WORK, Measured, make_requests, measure
from benchmarks._forecast_variants import make_variants
from benchmarks.forecast import (
    CannotMeasureError,
    Summary,
    cross_validate,
    print_variants,
    read_folder,
    rows_of,
    rows_of_speed,
    summarise,
)
from slackwater.prediction.backtest import BacktestResult
from slackwater.prediction.history import History


def result(series: str, exceeded: float, sold: float | None) -> BacktestResult:
    return BacktestResult(series, "x", 100, exceeded, 1.0, sold, 60.0)


def test_a_summary_counts_every_series_alike() -> None:
    told = summarise([result("a", 0.01, 0.8), result("b", 0.05, 0.9)])
    assert (told.exceeded, told.worst, told.sold) == pytest.approx((3.0, 5.0, 0.85))


@pytest.mark.parametrize(
    ("told", "missed"),
    [
        (Summary(3.0, 6.0, 0.84), [False, False, False]),
        (Summary(3.1, 6.1, 0.83), [True, True, True]),
    ],
)
def test_bars(told: Summary, missed: list[bool]) -> None:
    assert [row.missed() for row in rows_of(told)] == missed


def test_bars_of_speed() -> None:
    assert not any(row.missed() for row in rows_of_speed(Measured(5000, 9.9, 599.0), "x"))
    assert all(row.missed() for row in rows_of_speed(Measured(5000, 10.1, 601.0), "x"))


def test_made_up_series_are_the_same_each_time() -> None:
    first, second, other = make_series(1), make_series(1), make_series(2)
    assert len(first) == 9
    for name, history in first.items():
        assert len(history.values) == 14 * 1440
        assert np.nanmin(history.values) >= 0
        assert np.array_equal(history.values, second[name].values, equal_nan=True)
        assert not np.array_equal(history.values, other[name].values, equal_nan=True)
    assert np.isnan(first["missing"].values).any()


@pytest.mark.parametrize("kind", list(WORK))
def test_the_work_is_real(kind: str) -> None:
    requests = make_requests(4, kind)
    assert all(each.history.seconds == 3 * 86_400 for each in requests)
    found = measure(4, kind)
    assert found.nodes == 4
    assert found.seconds > 0
    assert found.peak > 1


def test_a_folder_of_series(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasureError, match="has no CSV files"):
        read_folder(str(tmp_path))
    (tmp_path / "a.csv").write_text("ts,value\n0,1\n60,2\n")
    assert list(read_folder(str(tmp_path))["a"].values) == [1.0, 2.0]
    (tmp_path / "b.csv").write_text("nonsense")
    with pytest.raises(CannotMeasureError, match="header"):
        read_folder(str(tmp_path))


def test_constants_are_judged_on_a_series_that_did_not_choose_them() -> None:
    random = np.random.default_rng(1)
    series = {
        name: History(0.0, 300.0, random.gamma(9.0, 1.0, 288 * 3 + 48)) for name in ("a", "b")
    }
    told = cross_validate(series)
    assert 0 <= told.exceeded <= told.worst <= 100
    assert 0 < told.sold < 1.5


def five_days() -> dict[str, History]:
    random = np.random.default_rng(3)
    times = 300.0 * np.arange(288 * 5)
    day = 2 + np.sin(2 * np.pi * times / 86_400)
    return {
        str(number): History(0.0, 300.0, day * random.gamma(30.0, number + 1, len(times)))
        for number in range(6)
    }


def test_variants_are_other_series_of_the_same_load() -> None:
    series = five_days()
    variants = make_variants(series)
    assert len(variants) == 13
    for name, varied in variants.items():
        again = make_variants(series)[name]
        assert len(varied) == 6
        for key, history in varied.items():
            assert np.array_equal(history.values, again[key].values, equal_nan=True)
            assert np.nanmin(history.values) >= 0
    for name in ("backwards", "days backwards", "days in another order"):
        values = variants[name]["1"].values
        assert sorted(values) == sorted(series["1"].values)
        assert not np.array_equal(values, series["1"].values)
    assert np.isnan(variants["samples missing"]["1"].values).any()


def test_variants_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    print_variants(dict(list(five_days().items())[:2]))
    assert capsys.readouterr().out.count(" %") == 2 * 13


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nodes", "0"], "--nodes has to be at least 1"),
        (["--cross-validate"], "need a folder"),
        (["--vary"], "need a folder"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["forecast.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        forecast.main()
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_missed_bar_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["forecast.py", "--seeds", "0", "--nodes", "2"])
    monkeypatch.setattr(forecast, "BAR_SECONDS", 0.0)
    assert forecast.main() == 1
    assert "MISSED" in capsys.readouterr().out
