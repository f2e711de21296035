"""The text of the metrics: what Prometheus, its linter and OpenMetrics read; and the page."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.record.exposition import build_families, render_agent_metrics, render_families
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import METRICS, MetricDefinition, MetricSample, MetricType, page
from tests.unit.record.metric_facts import LINK, facts, full
from tests.unit.record.tick_records import record

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"
AGAIN = (
    "docs/reference/metrics.md is old; write it again: .venv/bin/python -c "
    "'from slackwater.record.metric_table import page; print(page(), end=\"\")' "
    "> docs/reference/metrics.md"
)


def test_the_page_in_docs_is_the_page() -> None:
    assert PAGE.read_text() == page(), AGAIN


def test_names_are_told_apart_also_in_openmetrics() -> None:
    families = [metric.name.removesuffix("_total") for metric in METRICS]
    assert len(set(families)) == len(METRICS)
    for metric in METRICS:
        assert page().count(f"| `{metric.name}` |") == 1
        assert "|" not in metric.prose
        assert metric.name.endswith("_total") is (metric.kind is MetricType.COUNTER)


def test_the_text_is_what_a_parser_reads() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    kind, text = render_agent_metrics(facts(full(), link=LINK), "")
    assert kind.startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in text_string_to_metric_families(text.decode())}
    assert len(families) == len(METRICS)
    [sample] = families["slackwater_node_cpu_usage_cores"].samples
    assert sample.value == 1.25


def test_openmetrics_for_who_asks_for_it() -> None:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    kind, text = render_agent_metrics(facts(full(), link=LINK), accept)
    assert kind.startswith("application/openmetrics-text")
    parsed = text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert families["slackwater_ticks"].type == "counter"
    assert len(families) == len(METRICS)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", "text/plain; version=0.0.4"),
        ("text/html, Application/OpenMetrics-Text", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=abc", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=1\r\n x: y", "application/openmetrics-text; v"),
    ],
)
def test_formats(accept: str, kind: str) -> None:
    """What was asked for is not repeated in the answer."""
    found, text = render_agent_metrics(facts(full(), link=LINK), accept)
    assert found.startswith(kind)
    assert "\n" not in found
    assert text.endswith(b"# EOF\n") is kind.startswith("application")


@pytest.mark.parametrize("latest", [None, record(), full()])
def test_promtool_finds_nothing(latest: TickRecord | None) -> None:
    promtool = shutil.which("promtool")
    if promtool is None and not os.environ.get("CI"):
        pytest.skip("there is no promtool here (Debian's package prometheus)")
    assert promtool, "there is no promtool (Debian's package prometheus)"
    _, text = render_agent_metrics(facts(latest), "")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


HOSTILE = MetricDefinition("slackwater_hostile", MetricType.GAUGE, ("b", "a"), 'a "b" \\ c\nd')
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(TEXTS, TEXTS, st.floats(allow_nan=False))
def test_any_label_and_number_reads_back(one: str, other: str, value: float) -> None:
    from prometheus_client.openmetrics.parser import (
        text_string_to_metric_families as read_openmetrics,
    )
    from prometheus_client.parser import text_string_to_metric_families as read_plain

    families = tuple(build_families((HOSTILE,), [MetricSample(HOSTILE, value, (one, other))]))
    for accept, read in (("", read_plain), ("application/openmetrics-text", read_openmetrics)):
        _, text = render_families(families, accept)
        [family] = read(text.decode())
        [sample] = family.samples
        assert (sample.labels, sample.value) == ({"b": one, "a": other}, value)
        assert family.documentation == HOSTILE.prose
