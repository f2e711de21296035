"""How good forecasts are, and what they cost: real series, made-up ones, and 5,000 nodes at once.

`.venv/bin/python benchmarks/forecast.py [FOLDER] [--nodes 5000] [--seeds 3] [--cross-validate]
[--vary]`.
FOLDER has CSV files of real CPU usage (ts,value or timestamp,value); without it only made-up series
are tried. One forecast each hour from the fourth day on, from the three days before it, of the next
hour's peak; the node's capacity is 1.25 times the series' maximum. --vary tries the real series
made strange as well: backwards, shortened, two of them joined.
Exit code 0: within the bars; 1: a bar was missed, or nothing could be measured.
"""

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks._forecast_series import make_series
from benchmarks._forecast_speed import WORK, Measured
from benchmarks._forecast_variants import make_variants
from benchmarks.cgroup_reads import Row
from slackwater.cli.forecast_series import read_series
from slackwater.model.problem import InvalidError
from slackwater.prediction.adaptive import AdaptiveMemory, AdaptiveTuning, forecast_peaks
from slackwater.prediction.backtest import (
    PREDICTORS,
    BacktestResult,
    BacktestTerms,
    PeakPredictor,
    SeriesBacktest,
    backtest_series,
)
from slackwater.prediction.history import History
from slackwater.prediction.period import find_period

#: Percent of windows, on average and in the worst series, and the least share of the oracle's.
BAR_EXCEEDED, BAR_WORST, BAR_SOLD = 3.0, 6.0, 0.84
#: Seconds of CPU and MiB.
BAR_SECONDS, BAR_PEAK = 10.0, 600.0
_PATIENCE = 600.0
#: What cross-validation chooses from.
_CANDIDATES = tuple(
    AdaptiveTuning(price=price, exceeded_goal=goal, price_step=step, first_caution=caution)
    for price, goal, step, caution in itertools.product(
        (1.0, 1.5), (0.025, 0.03), (0.2, 0.3), (0.0, 0.8)
    )
)


class CannotMeasureError(Exception):
    """One sentence about what is missing."""


class Summary(msgspec.Struct, frozen=True):
    """Of several series: percent of windows exceeded, on average and in the worst, and the mean
    share of what an oracle would have sold."""

    exceeded: float
    worst: float
    sold: float


def summarise(results: Iterable[BacktestResult]) -> Summary:
    """Every series counts alike."""
    own = list(results)
    shares = [100 * each.exceeded for each in own]
    sold = [each.sold_of_oracle or 0.0 for each in own]
    return Summary(sum(shares) / len(own), max(shares), sum(sold) / len(own))


def read_folder(folder: str) -> dict[str, History]:
    paths = sorted(Path(folder).glob("*.csv"))
    if not paths:
        raise CannotMeasureError(f"{folder} has no CSV files")
    try:
        return {path.stem: read_series(str(path)).history for path in paths}
    except InvalidError as error:
        raise CannotMeasureError(str(error)) from None


def try_all(
    series: Mapping[str, History], predictors: Mapping[str, PeakPredictor]
) -> dict[str, dict[str, BacktestResult]]:
    """By estimator and series."""
    found: dict[str, dict[str, BacktestResult]] = {name: {} for name in predictors}
    for place, (name, history) in enumerate(series.items(), 1):
        if sys.stderr.isatty():
            print(f"\r{place} of {len(series)} series", end="", file=sys.stderr, flush=True)
        test = backtest_series(name, history, predictors, BacktestTerms())
        if not isinstance(test, SeriesBacktest):
            raise CannotMeasureError(f"{name}: {test.reason}")
        for result in test.results:
            found[result.estimator][name] = result
    return found


def print_table(title: str, found: Mapping[str, Mapping[str, BacktestResult]]) -> None:
    print(f"\n{title:<34} exceeded   worst series   sold of oracle")
    for name, results in found.items():
        told = summarise(results.values())
        shares = f"{told.exceeded:6.2f} %       {told.worst:6.2f} %"
        print(f"  {name:<32} {shares}           {told.sold:.3f}")


def print_series(results: Mapping[str, BacktestResult]) -> None:
    for name, result in results.items():
        sold = result.sold_of_oracle or 0.0
        print(f"    {name:<30} {100 * result.exceeded:6.2f} %                          {sold:.3f}")


def print_periods(series: Mapping[str, History]) -> None:
    """What Crane's dsp goes by: a day or a week for most of its own test series."""
    print("\nperiods")
    for name, history in series.items():
        period = find_period(history)
        told = f"{period.name}, autocorrelation {period.correlation:.2f}" if period else "none"
        print(f"    {name:<30} {told}")


def rows_of(told: Summary) -> list[Row]:
    return [
        Row("real series: windows exceeded, mean", told.exceeded, "%", BAR_EXCEEDED),
        Row("real series: windows exceeded, worst series", told.worst, "%", BAR_WORST),
        Row("real series: not sold of the oracle's", 1 - told.sold, "", 1 - BAR_SOLD),
    ]


def measure_speed(nodes: int, kind: str) -> Measured:
    """In a process of its own, on one core."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-m", "benchmarks._forecast_speed", str(nodes), kind]
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=os.environ | one_core, capture_output=True,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotMeasureError(f"no forecasts after {_PATIENCE:g} s") from None
    if done.returncode:
        last = (done.stderr.decode().strip().splitlines() or ["no word"])[-1]
        raise CannotMeasureError(f"the forecasting process ended with {done.returncode}: {last}")
    return msgspec.json.decode(done.stdout, type=Measured)


def rows_of_speed(measured: Measured, what: str) -> list[Row]:
    return [
        Row(f"{measured.nodes} nodes, {what}: CPU time", measured.seconds, "s", BAR_SECONDS),
        Row(f"{measured.nodes} nodes, {what}: peak memory", measured.peak, "MiB", BAR_PEAK),
    ]


def predict_tuned(tuning: AdaptiveTuning) -> PeakPredictor:
    def predict(history: History, window: float, memory: object) -> tuple[float, AdaptiveMemory]:
        kept = memory if isinstance(memory, AdaptiveMemory) else None
        found = forecast_peaks([history], [window], [kept], tuning)[0]
        return found.next, found.memory

    return predict


def cross_validate(series: Mapping[str, History]) -> Summary:
    """Constants are chosen on all series but one, and judged on that one, for each of them."""
    names = {str(place): predict_tuned(each) for place, each in enumerate(_CANDIDATES)}
    found = try_all(series, names)
    judged = []
    for left_out in series:
        best = max(names, key=lambda name: _merit(found[name], left_out))
        judged.append(found[best][left_out])
    return summarise(judged)


def _merit(results: Mapping[str, BacktestResult], left_out: str) -> float:
    """What is sold, if the bars are kept; else less, the more they are missed."""
    told = summarise(each for name, each in results.items() if name != left_out)
    missed = max(told.exceeded - BAR_EXCEEDED, 0) + max(told.worst - BAR_WORST, 0)
    return -missed if missed else told.sold


def print_variants(series: Mapping[str, History]) -> None:
    print("\nadaptive on the same series made strange exceeded   worst series   sold of oracle")
    for name, varied in make_variants(series).items():
        found = try_all(varied, {"adaptive": PREDICTORS["adaptive"]})["adaptive"]
        told = summarise(found.values())
        shares = f"{told.exceeded:6.2f} %       {told.worst:6.2f} %"
        print(f"  {name:<38} {shares}           {told.sold:.3f}", flush=True)


def print_cross_validation(told: Summary) -> None:
    print(
        "\nconstants chosen without the series that they are judged on: "
        f"exceeded {told.exceeded:.2f} %, worst {told.worst:.2f} %, sold {told.sold:.3f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", help="CSV files of real CPU usage")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3, help="of made-up series; 0 for none")
    parser.add_argument("--cross-validate", action="store_true", help="takes minutes; needs FOLDER")
    parser.add_argument("--vary", action="store_true", help="takes minutes; needs FOLDER")
    said = parser.parse_args()
    if said.nodes < 1 or said.seeds < 0:
        parser.error("--nodes has to be at least 1, and --seeds at least 0")
    if (said.cross_validate or said.vary) and not said.folder:
        parser.error("--cross-validate and --vary need a folder of series")
    try:
        found = _measure(said.folder, said.nodes, said.seeds)
        if said.cross_validate:
            print_cross_validation(cross_validate(read_folder(said.folder)))
        if said.vary:
            print_variants(read_folder(said.folder))
    except CannotMeasureError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print()
    for row in found:
        print(row.line())
    return 1 if any(row.missed() for row in found) else 0


def _measure(folder: str | None, nodes: int, seeds: int) -> Sequence[Row]:
    rows: list[Row] = []
    if folder:
        series = read_folder(folder)
        found = try_all(series, PREDICTORS)
        print_table(f"{len(found['adaptive'])} real series", found)
        print_series(found["adaptive"])
        print_periods(series)
        rows += rows_of(summarise(found["adaptive"].values()))
    if seeds:
        made = {
            f"{name} {seed}": history
            for seed in range(seeds)
            for name, history in make_series(seed).items()
        }
        found = try_all(made, PREDICTORS)
        print_table(f"{len(made)} made-up series", found)
        print_series(found["adaptive"])
    for kind, what in WORK.items():
        rows += rows_of_speed(measure_speed(nodes, kind), what)
    return rows


if __name__ == "__main__":
    sys.exit(main())
