"""What holds of every report, whatever the numbers and whatever things are called."""

import csv
import io
import math
import re
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.report.cluster_report import ClusterReport, NodeDay, NodeUse, WorkloadUse
from slackwater.report.csv_rows import render_csv
from slackwater.report.day_picture import draw_days
from slackwater.report.fetch_objects import ListedNode, ListedObjects
from slackwater.report.fetch_series import NodeSamples, PodSamples
from slackwater.report.html import render_html
from slackwater.report.make_report import ReportSource, make_report
from slackwater.report.markdown import render_markdown
from slackwater.report.pod_owners import PodWithOwner
from slackwater.report.sections import cores, key_figures, percent, sections
from tests.unit.report.report_world import (
    END,
    SOURCE,
    bare_report,
    objects,
    sample_report,
    series,
)
from tests.unit.report.test_writers import Elements

#: Also what no node may be called.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)
AMOUNTS = st.floats(0, 1e5)
SEEN = st.one_of(st.floats(-1, 1e4), st.just(math.nan), st.just(math.inf))


def node(name: str, allocatable: float, used: float) -> NodeUse:
    idle = max(allocatable - used, 0.0)
    return NodeUse(name, allocatable, used, 2 * used, (NodeDay("2026-11-18", used, used, idle),))


NODES = st.lists(st.builds(node, NAMES, AMOUNTS, AMOUNTS), max_size=6)
WORKLOADS = st.lists(
    st.builds(WorkloadUse, NAMES, NAMES, st.integers(0, 99), AMOUNTS, AMOUNTS, st.none() | AMOUNTS),
    max_size=6,
)


def named(nodes: list[NodeUse], workloads: list[WorkloadUse], server: str) -> ClusterReport:
    return msgspec.structs.replace(
        sample_report(), nodes=tuple(nodes), workloads=tuple(workloads), server=server,
        notes=(server,),
    )  # fmt: skip


REPORTS = st.builds(named, NODES, WORKLOADS, NAMES)


# --- what is computed


@given(st.lists(SEEN, min_size=1, max_size=60), st.floats(0.1, 512))
def test_a_node_is_never_idler_than_it_is_large(values: list[float], allocatable: float) -> None:
    times = [END - 3600.0 * place for place in range(len(values))][::-1]
    there = ListedObjects((ListedNode("a", (), allocatable),), ())
    found = series([NodeSamples("a", 8.0, times, values)], days=1)
    report = make_report(found, there, SOURCE)
    known = [max(value, 0.0) for value in values if math.isfinite(value)]
    if not known:
        assert report.nodes == ()
        return
    [use] = report.nodes
    assert use.peak == max(known)
    assert use.used == pytest.approx(math.fsum(known) / len(known))
    assert 0 <= use.idle <= allocatable
    for day in use.days:
        assert 0 <= day.idle <= allocatable
        assert day.used <= day.peak * (1 + 1e-9)
        assert day.peak <= use.peak


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.floats(0, 100), min_size=4, max_size=4), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_what_pods_use_their_workloads_use(values: list[list[float]], owners: int) -> None:
    times = [END - 60.0 * place for place in range(4)]
    pods = tuple(PodSamples("shop", f"p{place}", times, each) for place, each in enumerate(values))
    listed = tuple(
        PodWithOwner("shop", f"p{place}", f"Deployment/d{place % owners}", 0.5, ended=False)
        for place in range(len(values))
    )
    found = msgspec.structs.replace(series(days=1), pods=pods)
    report = make_report(found, ListedObjects((), listed), SOURCE)
    assert len(report.workloads) == min(owners, len(values))
    used = math.fsum(math.fsum(each) / 4 for each in values)
    assert math.fsum(each.used for each in report.workloads) == pytest.approx(used)
    assert sum(each.pods for each in report.workloads) == len(values)
    assert sum(each.requested or 0 for each in report.workloads) == 0.5 * len(values)
    assert all(each.used <= each.peak * (1 + 1e-9) for each in report.workloads)
    order = [each.used for each in report.workloads]
    assert order == sorted(order, reverse=True)


def test_selling_never_exceeds_what_is_idle_by_an_oracle() -> None:
    """Who knows the peaks sells no more than what is idle, and never has to take it back."""
    offer = sample_report().offer
    assert offer is not None
    assert offer.oracle <= offer.idle
    safest = min(offer.estimators, key=lambda each: each.exceeded)
    assert safest.sold <= offer.oracle


def test_the_same_series_give_the_same_report() -> None:
    source = ReportSource("", SOURCE.prometheus, END)
    assert make_report(series(days=1), objects(), source) == bare_report()


# --- what is written


@settings(max_examples=20, deadline=None)
@given(REPORTS)
def test_any_page_is_whole_and_fetches_nothing(report: ClusterReport) -> None:
    text = render_html(report)
    page = Elements(text)
    assert page.open == []
    assert {tag for tag, _ in page.found}.isdisjoint({"script", "link", "iframe", "a", "form"})
    for _, given_attributes in page.found:
        assert not any(key.startswith("on") for key in given_attributes)
        assert (given_attributes.get("src") or "data:").startswith("data:")


@settings(max_examples=20, deadline=None)
@given(REPORTS)
def test_any_table_of_markdown_has_one_width(report: ClusterReport) -> None:
    for block in re.findall(r"(?:^\|[^\n]*\n)+", render_markdown(report), re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip("\n").split("\n")}
        assert len(widths) == 1


@settings(max_examples=20, deadline=None)
@given(REPORTS)
def test_any_csv_can_be_read_again(report: ClusterReport) -> None:
    rows = list(csv.reader(io.StringIO(render_csv(report), newline="")))
    assert {len(row) for row in rows} == {6}
    used = [row for row in rows if row[0] == "node" and row[3] == "allocatable"]
    assert len(used) == len(report.nodes)
    for row, use in zip(used, report.nodes, strict=True):
        assert float(row[4]) == pytest.approx(use.allocatable, rel=1e-5)
        assert row[1].removeprefix("'") == use.node.removeprefix("'")


@settings(max_examples=20, deadline=None)
@given(REPORTS)
def test_any_report_can_be_read_again(report: ClusterReport) -> None:
    assert msgspec.json.decode(msgspec.json.encode(report), type=ClusterReport) == report


@settings(max_examples=20, deadline=None)
@given(REPORTS)
def test_any_picture_can_be_parsed(report: ClusterReport) -> None:
    picture = draw_days(report)
    assert bool(picture) == bool(report.nodes)
    if picture:
        root = ET.fromstring(picture)  # noqa: S314 - our own
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for element in root.iter():
            for key, most in (("x", width), ("y", height)):
                assert -1 <= float(element.attrib.get(key, 0)) <= most + 1


@settings(max_examples=20, deadline=None)
@given(REPORTS)
def test_every_section_has_words_and_whole_rows(report: ClusterReport) -> None:
    for section in sections(report):
        assert section.title
        assert all(sentence.endswith(".") or sentence in report.notes
                   for sentence in section.sentences)  # fmt: skip
        if section.table:
            widths = {len(row) for row in section.table.rows}
            assert widths <= {len(section.table.columns)}
            shares = [cell.share for row in section.table.rows for cell in row]
            assert all(share is None or 0 <= share <= 1 for share in shares)
    assert all(figure.value and figure.meaning for figure in key_figures(report))


@given(st.floats(0, 1e9))
def test_numbers_for_people_have_no_exponent(amount: float) -> None:
    assert "e" not in cores(amount)
    assert float(cores(amount)) == pytest.approx(amount, abs=0.6, rel=0.01)
    assert "e" not in percent(amount)
