"""Service, hog and load as real processes, without cgroups."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from slackwater.demo import load
from slackwater.demo.service import (
    BUCKETS,
    HISTOGRAM,
    LatencyHistogram,
    request_start,
    rounds_for,
    work,
)


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"slackwater.demo.{module}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def port() -> Iterator[int]:
    with start("service", "0.0005") as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def run(port: int, times: list[float], patience: float = 300.0) -> tuple[float, list[list[float]]]:
    said: list[str] = []
    load.run(port, times, said.append, patience)
    first, *rest = map(json.loads, said)
    return first["start"], rest


def test_the_work_is_the_same_each_time_and_grows_with_its_rounds() -> None:
    assert work(3) == work(3)
    assert work(3) != work(4)


def test_the_calibration_takes_the_cpu_time_it_was_asked_for() -> None:
    small, large = rounds_for(0.002), rounds_for(0.02)
    assert 1 <= small < large
    before = time.process_time()
    work(large)
    assert 0.004 < time.process_time() - before < 0.1


def test_every_request_is_answered_once(port: int) -> None:
    times = [n / 200 for n in range(50)]
    _, answers = run(port, times)
    assert sorted(at for at, _, _ in answers) == times
    assert all(ok and ms > 0 for _, ms, ok in answers)


def test_latency_counts_from_the_intended_time(port: int) -> None:
    """Sixty requests at the same moment wait for each other: the last one waited for them all."""
    start_at, answers = run(port, [0.0] * 60)
    worst = max(ms for _, ms, _ in answers)
    took = (time.monotonic() - start_at) * 1000
    assert worst > 60 * 0.5 / 2
    assert worst <= took


def test_a_dead_service_is_told_as_unanswered(port: int) -> None:
    with start("service", "0.0005") as process:
        assert process.stdout is not None
        gone = int(process.stdout.readline())
        process.kill()
        process.wait()
    _, answers = run(gone, [0.0, 0.01])
    assert [ok for _, _, ok in answers] == [False, False]
    assert load.ask(port, 300.0)


def test_no_requests_end_at_once(port: int) -> None:
    _, answers = run(port, [])
    assert answers == []


@pytest.mark.parametrize(("module", "arguments"), [("service", ["0.0005"]), ("hog", [])])
def test_they_end_with_their_standard_input(module: str, arguments: list[str]) -> None:
    with start(module, *arguments) as process:
        if module == "service":
            assert process.stdout is not None
            process.stdout.readline()
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def test_the_load_as_a_program_speaks_lines_of_json(port: int) -> None:
    with start("load") as process:
        said, _ = process.communicate(json.dumps({"port": port, "times": [0.0, 0.05]}))
    lines = [json.loads(line) for line in said.splitlines()]
    assert set(lines[0]) == {"start"}
    assert sorted(at for at, _, _ in lines[1:]) == [0.0, 0.05]
    assert process.returncode == 0


def counts_in(text: str) -> dict[str, int]:
    """Of the buckets, by their bound."""
    start = f'{HISTOGRAM}_bucket{{le="'
    rows = [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]
    return {row.partition('"')[0]: int(row.rpartition(" ")[2]) for row in rows}


def test_buckets_count_what_is_below_them_too() -> None:
    found = LatencyHistogram()
    for seconds in (0.0005, 0.001, 0.0011, 0.9, 7.0):
        found.observe(seconds)
    text = found.render()
    counts = counts_in(text)
    assert (counts["0.001"], counts["0.002"], counts["1"], counts["+Inf"]) == (2, 3, 4, 5)
    assert list(counts.values()) == sorted(counts.values())
    assert len(counts) == len(BUCKETS) + 1
    assert text.splitlines()[-2:] == [f"{HISTOGRAM}_sum 7.902600", f"{HISTOGRAM}_count 5"]


@pytest.mark.parametrize(
    ("header", "start"),
    [("t=99.5", 99.5), ("98", 98.0), (None, 100.0), ("t=soon", 100.0), ("t=101", 100.0),
     ("t=-1e9", 100.0), ("t=nan", 100.0)],
)  # fmt: skip
def test_when_a_request_was_meant_to_be_sent(header: str | None, start: float) -> None:
    assert request_start(header, 100.0) == start


def test_the_service_exports_the_latency_that_clients_see(port: int) -> None:
    """With the wait for a free worker: requests sent at the same moment wait for each other."""
    _, answers = run(port, [0.0] * 60)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        kind, counts = answer.headers["Content-Type"], counts_in(answer.read().decode())
    assert kind.startswith("text/plain")
    assert counts["+Inf"] == 60
    median = sorted(ms for _, ms, _ in answers)[30]
    assert sum(counts[f"{bound:g}"] <= 30 for bound in BUCKETS if bound * 1000 < median / 4) >= 1
