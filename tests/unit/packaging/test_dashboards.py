"""The chart's dashboards, alerts and runbooks against the documents and against each other: what
no Prometheus is needed for."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.dashboards.__main__ import FOLDER, main, wanted
from tools.dashboards.grafana import Dashboard, Panel, Query, Row, Variable, render
from tools.dashboards.pages import DASHBOARDS
from tools.manifests import CHART, ROOT

RUNBOOKS = ROOT / "docs" / "runbooks"
RULES = sorted((CHART / "rules").glob("*.yaml"))
#: Where each program's metrics are described.
PAGES = ("metrics.md", "rebalancer-metrics.md", "manager.md")
FOREIGN = {"up", "container_cpu_usage_seconds_total", "kube_pod_container_resource_requests"}
_OURS = re.compile(r"\b(?:slackwater|rebalancer)_[a-z0-9_]+")
_RECORDED = re.compile(r"\bslackwater:[a-z0-9_:]+")
_SELECTOR = re.compile(r"\b((?:slackwater|rebalancer)_[a-z0-9_]+)\{([^}]*)\}")
_HEADINGS = ("## What it means", "## Look", "## Do")
#: Of the scrape, not of the metric.
_TARGET_LABELS = {"node", "pod", "namespace", "job", "instance"}


@functools.cache
def documented() -> dict[str, set[str]]:
    """Labels by metric. A histogram has three series."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        text = (ROOT / "docs" / "reference" / page).read_text()
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", text, re.MULTILINE)
        for name, kind, labels in rows:
            own = set(re.findall(r"`(\w+)`", labels))
            ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            found |= {name + end: own | ({"le"} if end == "_bucket" else set()) for end in ends}
    return found


@functools.cache
def rules(path: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load(path.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@functools.cache
def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for path in RULES for rule in rules(path) if "alert" in rule}


@functools.cache
def queries() -> dict[str, str]:
    """Of dashboards, alerts and recording rules, by where they stand."""
    found = {
        f"{board.name}: {panel.title} {place}": query.text
        for board in DASHBOARDS
        for panel in board.panels()
        for place, query in enumerate(panel.queries)
    }
    for path in RULES:
        for rule in rules(path):
            found[f"{path.stem}: {rule.get('alert') or rule['record']}"] = rule["expr"]
    return found


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_the_files_are_what_is_written(board: Dashboard) -> None:
    """Else: .venv/bin/python -m tools.dashboards."""
    assert (FOLDER / f"{board.name}.json").read_text() == render(board)


def test_there_is_no_other_file() -> None:
    assert set(FOLDER.iterdir()) == wanted().keys()
    assert {path.stem for path in wanted()} == {"cluster", "node", "rebalancer", "forecast"}


@pytest.mark.parametrize("place", queries())
def test_every_metric_is_documented_with_its_labels(place: str) -> None:
    known = documented()
    query = queries()[place]
    for name in _OURS.findall(query):
        assert name in known, f"{name} is in none of {', '.join(PAGES)}"
    for name, matchers in _SELECTOR.findall(query):
        labels = set(re.findall(r"(\w+)\s*[=!]", matchers))
        assert labels <= known[name] | _TARGET_LABELS
    assert _OURS.search(query) or _RECORDED.search(query) or query.startswith("up{")


def test_series_that_are_recorded_are_the_only_ones_used() -> None:
    template = (CHART / "templates" / "prometheusrule.yaml").read_text()
    recorded = set(re.findall(r"- record: (\S+)", template))
    recorded |= {rule["record"] for path in RULES for rule in rules(path) if "record" in rule}
    used = {name for query in queries().values() for name in _RECORDED.findall(query)}
    assert used <= recorded
    assert len(used) >= 3


def test_foreign_series_are_few() -> None:
    """What a cluster without kube-state-metrics lacks is only real utilisation."""
    text = " ".join(queries().values())
    found = re.findall(r"(?<![a-z_:])(?:container|kube|node)_[a-z_]+_(?:total|requests)\b", text)
    assert set(found) <= FOREIGN


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_grafana_finds_what_it_needs(board: Dashboard) -> None:
    whole = json.loads(render(board))
    assert whole["uid"] == f"slackwater-{board.name}"
    assert len(whole["uid"]) <= 40
    names = {each["name"] for each in whole["templating"]["list"]}
    assert "datasource" in names
    panels = whole["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    for panel in panels:
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["title"]
        assert panel["description"].endswith(".")
        letters = [each["refId"] for each in panel["targets"]]
        assert letters == sorted(set(letters))
        used = set(re.findall(r"\$(\w+)", " ".join(t["expr"] for t in panel["targets"])))
        assert used <= names | {"__rate_interval"}


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_no_panel_lies_on_another(board: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(render(board))["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_a_panel_is_drawn_as_it_is_described() -> None:
    drawn = Panel("Used", "In cores.", (Query("a"), Query("b", "{{node}}")), unit="s", stacked=True)
    number = Panel("Now", "One.", (Query("c"),), "stat", width=20)
    table = Panel("All", "Rows.", (Query("d"),), "table", width=20)
    board = Dashboard("x", "X", "About.", (Variable("node", "m", "node"),),
                      (Row("One", (drawn, number)), Row("Two", (table,))))  # fmt: skip
    row, first, second, below, last = json.loads(render(board))["panels"]
    assert (row["type"], below["type"]) == ("row", "row")
    assert [each["expr"] for each in first["targets"]] == ["a", "b"]
    assert [each["legendFormat"] for each in first["targets"]] == ["__auto", "{{node}}"]
    assert first["targets"][0]["range"]
    assert first["fieldConfig"]["defaults"]["custom"]["stacking"] == {"mode": "normal"}
    assert second["targets"][0]["instant"]
    assert "custom" not in second["fieldConfig"]["defaults"]
    # Eight columns and twenty do not fit beside each other.
    assert (second["gridPos"]["x"], second["gridPos"]["y"]) == (0, 9)
    assert below["gridPos"]["y"] == 17
    assert last["targets"][0]["format"] == "table"
    [source, variable] = json.loads(render(board))["templating"]["list"]
    assert source["type"] == "datasource"
    assert variable["definition"] == "label_values(m, node)"


def test_writing_again_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert main([]) == 0
    assert capsys.readouterr().err == ""


def test_check_names_what_is_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.json"
    monkeypatch.setattr("tools.dashboards.__main__.wanted", lambda: {file: "new"})
    assert main(["--check"]) == 1
    assert not file.exists()
    assert main([]) == 0
    assert file.read_text() == "new"
    assert main(["--check"]) == 0
    assert capsys.readouterr().err.split() == [
        "dashboards:", "old:", "node.json", "dashboards:", "wrote:", "node.json"
    ]  # fmt: skip


@pytest.mark.parametrize("name", alerts())
def test_every_alert_has_a_runbook(name: str) -> None:
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    rule = alerts()[name]
    assert f"Severity {rule['labels']['severity']}, after {rule['for']}:" in page
    places = [page.index(heading) for heading in _HEADINGS]
    assert places == sorted(places)


@pytest.mark.parametrize("name", alerts())
def test_every_alert_says_what_and_how_bad(name: str) -> None:
    rule = alerts()[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert set(rule["annotations"]) == {"summary", "description"}
    assert all(text.endswith((".", "why.")) for text in rule["annotations"].values())


def test_no_runbook_is_about_an_alert_that_is_gone() -> None:
    assert {path.stem for path in RUNBOOKS.iterdir()} == {"README", *alerts()}
    index = (RUNBOOKS / "README.md").read_text()
    assert re.findall(r"^\| \[(\w+)\]\(\1\.md\) \|", index, re.MULTILINE) == list(alerts())


@pytest.mark.parametrize("path", sorted(RUNBOOKS.iterdir()), ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists()


@pytest.mark.parametrize("path", sorted(RUNBOOKS.iterdir()), ids=lambda path: path.stem)
def test_runbooks_name_metrics_and_settings_that_exist(path: Path) -> None:
    text = path.read_text()
    known = documented()
    assert [name for name in _OURS.findall(text) if name not in known] == []
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = re.findall(r"`((?:manager|networkPolicy|apiServer|prometheusRule)\.[\w.]+)", text)
    for each in named:
        below: Any = values
        for part in each.split("."):
            assert part in below, f"the chart has no value {each}"
            below = below[part]
