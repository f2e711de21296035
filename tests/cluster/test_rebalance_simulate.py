"""`rebalance simulate` on what a real Prometheus recorded, asked as the reference says. Nothing
here needs a control plane."""

import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest
from click.testing import CliRunner

from slackwater.cli.rebalance_simulate import simulate
from slackwater.rebalancer.whatif.day import Day
from tests.cluster.prometheus_bed import Backfill, prometheus_with, usage
from tests.unit.rebalancer.whatif.days import generated_day, reported

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "rebalance-simulate.md"
F6 = {"a": 1.2, "b": 1.1, "c": 0.8, "d": 0.6, "e": 0.4, "f": 0.3}
STEP = 300
HOURS = 14
#: Between two scrapes.
SCRAPE = 60


def query() -> str:
    """The reference's own."""
    found = re.search(r"'query=(.*)'", REFERENCE.read_text())
    assert found is not None
    return found[1]


def answer(endpoint: str, start: float, end: float) -> str:
    asked = urlencode({"query": query(), "start": start, "end": end, "step": STEP})
    opener = build_opener(ProxyHandler({}))
    with opener.open(f"{endpoint}/api/v1/query_range?{asked}", timeout=300) as response:
        text: str = response.read().decode()
    return text


def simulated(text: str, *arguments: str) -> dict[str, Any]:
    words = ["-", "--request", "1", "-o", "json", *arguments]
    done = CliRunner().invoke(simulate, words, input=text)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_seeds_example(tmp_path: Path) -> None:
    now = time.time()
    series = [usage("prod", f"web-{pod}", cores, now=now, container="web")
              for pod, cores in F6.items()]  # fmt: skip
    # Neither another container's nor another namespace's.
    series += [
        usage("prod", "web-a", 9.0, now=now, container="proxy"),
        usage("test", "web-z", 9.0, now=now, container="web"),
    ]
    with prometheus_with(tmp_path, series) as bed:
        found = simulated(answer(bed.endpoint, now - 900, now))
    assert (found["day"]["pods"], found["day"]["steps"], found["day"]["missing"]) == (6, 4, 0)
    (rotation,) = found["rotations"]
    assert sorted(rotation["pods"]) == ["web-a", "web-b", "web-e", "web-f"]
    assert (rotation["average"], rotation["predicted"]) == (1.15, 0.75)
    assert rotation["improvement"] == 34.78


def counters(day: Day, start: float) -> Iterator[Backfill]:
    """What cAdvisor would have counted on such a day."""
    for pod in day.pods:
        total, points = 0.0, [(start, 0.0)]
        for moment in day.moments:
            for turn in range(1, STEP // SCRAPE + 1):
                total += moment.loads[pod].cores * SCRAPE
                points.append((start + moment.at + turn * SCRAPE, total))
        labels = {"namespace": "prod", "pod": pod, "container": "web", "id": pod}
        yield Backfill("container_cpu_usage_seconds_total", labels, tuple(points), "counter")


def rotations(found: Iterable[dict[str, Any]], start: float) -> list[tuple[float, list[str]]]:
    return [(each["at"] - start, sorted(each["pods"])) for each in found]


def test_a_generated_day_comes_back_from_prometheus(tmp_path: Path) -> None:
    """Recorded as counters, asked for as rates, it is decided as the day itself."""
    day = generated_day(skew=1.0, hours=float(HOURS))
    start = float(int(time.time()) // STEP * STEP - (HOURS + 1) * 3600)
    with prometheus_with(tmp_path, counters(day, start)) as bed:
        text = answer(bed.endpoint, start + STEP, start + HOURS * 3600)
    found, direct = simulated(text), reported(day)
    assert found["day"]["steps"] == len(day.moments)
    expected = [(each.at, sorted(each.pods)) for each in direct.rotations]
    assert len(expected) > 1
    assert rotations(found["rotations"], start + STEP) == expected
    assert found["without"]["skew"] == pytest.approx(direct.without.skew, rel=1e-3)
    assert found["with"]["skew"] == pytest.approx(direct.rotated.skew, rel=1e-3)
    assert found["saved"]["percent"] == pytest.approx(direct.saved.percent, abs=0.5)
