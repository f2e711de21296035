"""HTML, Markdown, CSV and JSON of one report."""

import base64
import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from slackwater.report.cluster_report import ClusterReport, WorkloadUse
from slackwater.report.csv_rows import COLUMNS, render_csv
from slackwater.report.day_picture import draw_days
from slackwater.report.html import render_html
from slackwater.report.markdown import render_markdown
from slackwater.report.sections import (
    MOST_DAYS,
    MOST_NODES,
    cores,
    key_figures,
    percent,
    sections,
)
from tests.unit.report.report_world import bare_report, sample_report

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "report.md"
HOSTILE = '<script>alert("x")</script>|*_`'


class Elements(HTMLParser):
    """Every element that is opened, with its attributes, and those that are not closed."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def hostile() -> ClusterReport:
    """Names of other people."""
    report = sample_report()
    node = msgspec.structs.replace(report.nodes[0], node=HOSTILE)
    work = WorkloadUse(HOSTILE, f"=cmd|{HOSTILE}", 1, 1.0, 1.0, 2.0)
    return msgspec.structs.replace(
        report, nodes=(node, *report.nodes[1:]), workloads=(work,), server=HOSTILE,
        notes=(HOSTILE,),
    )  # fmt: skip


# --- HTML


@pytest.mark.parametrize("make", [sample_report, bare_report, hostile])
def test_the_page_is_whole(make: type) -> None:
    page = Elements(render_html(make()))
    assert page.open == []
    assert [tag for tag, _ in page.found].count("h1") == 1
    for tag, given in page.found:
        if tag == "th":
            assert given["scope"] == "col"
        if tag == "img":
            assert given["alt"]


@pytest.mark.parametrize("make", [sample_report, hostile])
def test_nothing_is_fetched_and_nothing_runs(make: type) -> None:
    text = render_html(make())
    page = Elements(text)
    assert not {"script", "link", "iframe", "object", "form"} & {tag for tag, _ in page.found}
    sources = [given[key] for _, given in page.found for key in ("src", "href") if key in given]
    assert [each for each in sources if each and not each.startswith("data:")] == []
    assert not any(key.startswith("on") for _, given in page.found for key in given)
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_names_of_others_stay_words() -> None:
    page = Elements(render_html(hostile()))
    assert HOSTILE in page.words


def test_light_dark_and_paper() -> None:
    text = render_html(sample_report())
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "color-scheme: light dark" in text


def test_the_picture_is_a_document_of_its_own() -> None:
    [source] = [given["src"] for tag, given in Elements(render_html(sample_report())).found
                if tag == "img"]  # fmt: skip
    assert source
    picture = base64.b64decode(source.partition(",")[2]).decode()
    assert picture == draw_days(sample_report())
    root = ET.fromstring(picture)  # noqa: S314 - our own
    assert root.tag.endswith("svg")
    labels = re.findall(r">(\d\d-\d\d)</text>", picture)
    assert labels == [f"11-{day}" for day in range(12, 19)]
    assert "above this line it could be sold" in picture


def test_without_a_forecast_no_line_is_drawn() -> None:
    assert "above this line" not in draw_days(bare_report())
    assert draw_days(msgspec.structs.replace(bare_report(), nodes=())) == ""


# --- Markdown, and the page in docs


def test_the_sample_in_docs_is_made_by_the_code() -> None:
    """Else: .venv/bin/python -m tests.unit.report.test_writers."""
    sample = PAGE.read_text().partition("<!-- sample -->\n")[2]
    assert sample == _sample()


def _sample() -> str:
    """Below the page's own headings."""
    return re.sub(r"^#", "###", render_markdown(sample_report()), flags=re.MULTILINE)


@pytest.mark.parametrize("make", [sample_report, bare_report, hostile])
def test_tables_of_markdown_have_one_width(make: type) -> None:
    for line in render_markdown(make()).splitlines():
        assert "\n" not in line
    blocks = re.findall(r"(?:^\|.*\n)+", render_markdown(make()), re.MULTILINE)
    assert blocks
    for block in blocks:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1


def test_markdown_hides_no_markup() -> None:
    text = render_markdown(hostile())
    assert "<script" not in text
    assert "&lt;script>" in text


# --- sentences


def test_what_is_said_about_a_whole_report() -> None:
    titles = [each.title for each in sections(sample_report())]
    assert titles == [
        "Idle CPU by node and day", "What could be sold, at which risk", "Hottest workloads",
        "Coldest workloads", "What Slackwater did", "What it would save", "How this was made",
    ]  # fmt: skip
    assert len(list(key_figures(sample_report()))) == 4


def test_what_is_not_known_is_not_said() -> None:
    report = bare_report()
    assert [each.title for each in sections(report)] == [
        "Idle CPU by node and day", "Hottest workloads", "Coldest workloads", "How this was made"
    ]  # fmt: skip
    assert len(list(key_figures(report))) == 1
    empty = msgspec.structs.replace(report, nodes=(), workloads=())
    assert [each.title for each in sections(empty)] == ["How this was made"]
    assert list(key_figures(empty)) == []
    unasked = tuple(msgspec.structs.replace(each, requested=None) for each in report.workloads)
    found = sections(msgspec.structs.replace(report, workloads=unasked))
    assert [each.title for each in found][1:-1] == ["Busiest workloads"]


def test_many_nodes_and_days_are_summed_up() -> None:
    report = sample_report()
    node = report.nodes[0]
    days = tuple(
        msgspec.structs.replace(node.days[0], day=f"2026-10-{place:02}") for place in range(1, 31)
    )
    many = tuple(
        msgspec.structs.replace(node, node=f"n{place}", days=days)
        for place in range(MOST_NODES + 7)
    )
    section = next(sections(msgspec.structs.replace(report, nodes=many)))
    assert section.table is not None
    assert len(section.table.rows) == MOST_NODES
    assert len(section.table.columns) == 5 + MOST_DAYS
    assert section.sentences[1].startswith("7 more nodes, with ")


def test_a_day_without_samples_is_a_dash() -> None:
    report = sample_report()
    late = msgspec.structs.replace(report.nodes[0], days=report.nodes[0].days[3:])
    section = next(sections(msgspec.structs.replace(report, nodes=(late, *report.nodes[1:]))))
    assert section.table is not None
    row = next(row for row in section.table.rows if row[0].text == late.node)
    assert [cell.text for cell in row[5:8]] == ["-", "-", "-"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0, "0.00"), (0.123, "0.12"), (12.34, "12.3"), (123.4, "123"), (12_345.6, "12346")],
)
def test_cores(amount: float, text: str) -> None:
    assert cores(amount) == text


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (0.0123, "1.2 %"), (0.123, "12 %")])
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


# --- CSV and JSON


def test_every_row_of_the_csv_is_a_number() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(sample_report()))))
    assert tuple(rows[0]) == COLUMNS
    assert all(float(each["value"]) >= 0 for each in rows)
    assert {each["table"] for each in rows} == {
        "node", "forecast", "workload", "policy", "savings"
    }  # fmt: skip
    days = [each for each in rows if each["name"] == "node-a" and each["day"]]
    assert len(days) == 3 * 7
    assert all(each["unit"] for each in rows)
    bare = csv.DictReader(io.StringIO(render_csv(bare_report())))
    assert {each["table"] for each in bare} == {"node", "workload"}


def test_no_name_becomes_a_formula() -> None:
    formula = msgspec.structs.replace(sample_report().nodes[0], node="=1+1")
    text = render_csv(msgspec.structs.replace(sample_report(), nodes=(formula,)))
    assert "node,'=1+1,,used," in text


def test_json_has_all_of_it_and_can_be_read_back() -> None:
    report = sample_report()
    text = msgspec.json.encode(report)
    assert msgspec.json.decode(text, type=ClusterReport) == report
    whole = json.loads(text)
    assert (whole["apiVersion"], whole["kind"]) == ("slackwater.io/v1", "ClusterReport")
    assert whole["offer"]["estimators"][0]["worstNode"] >= 0


if __name__ == "__main__":
    head = PAGE.read_text().partition("<!-- sample -->\n")[0]
    PAGE.write_text(f"{head}<!-- sample -->\n{_sample()}")
