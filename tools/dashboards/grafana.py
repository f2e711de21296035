"""A dashboard as a value, and as the JSON that Grafana imports.

Only what our dashboards use of Grafana's model: rows, time series, single numbers, bars and tables,
a data source that the viewer chooses, and variables from label values. Grafana fills in the rest.
"""

import json
from collections.abc import Iterator

import msgspec

Json = dict[str, object]
_SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
#: Of Grafana 10; newer ones migrate it when they load it.
_SCHEMA = 39
_COLUMNS, _ROW_HEIGHT = 24, 1


class Query(msgspec.Struct, frozen=True):
    """`legend` in Grafana's braces: {{node}}."""

    text: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True):
    """`kind`: timeseries, stat, bargauge or table. `unit` is one of Grafana's names."""

    title: str
    about: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    stacked: bool = False


class Row(msgspec.Struct, frozen=True):
    title: str
    panels: tuple[Panel, ...]


class Variable(msgspec.Struct, frozen=True):
    """The values of a label of a metric; the viewer chooses some of them, at first all."""

    name: str
    metric: str
    label: str


class Dashboard(msgspec.Struct, frozen=True):
    """`name` is the file's, and the end of its address in Grafana."""

    name: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]

    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels


def render(dashboard: Dashboard) -> str:
    """The file's text."""
    whole: Json = {
        "uid": f"slackwater-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["slackwater"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": _SCHEMA,
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "links": [_other_dashboards()],
        "templating": {"list": [_data_source(), *map(_variable, dashboard.variables)]},
        "panels": list(_place(dashboard)),
    }
    return json.dumps(whole, indent=2) + "\n"


def _other_dashboards() -> Json:
    return {
        "type": "dashboards",
        "title": "Slackwater",
        "tags": ["slackwater"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }


def _data_source() -> Json:
    return {"type": "datasource", "name": "datasource", "label": "Prometheus",
            "query": "prometheus"}  # fmt: skip


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.name,
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "values"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _place(dashboard: Dashboard) -> Iterator[Json]:
    """Rows below one another, panels from left to right."""
    y = number = 0
    for row in dashboard.rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": _ROW_HEIGHT},
        }
        y += _ROW_HEIGHT
        x = tallest = 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            number += 1
            yield _panel(panel, number, x, y)
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, each, place) for place, each in enumerate(panel.queries)],
    }


def _target(panel: Panel, query: Query, place: int) -> Json:
    """A single number, a bar and a table show the present alone."""
    drawn = panel.kind == "timeseries"
    return {
        "refId": chr(ord("A") + place),
        "datasource": _SOURCE,
        "expr": query.text,
        "legendFormat": query.legend or "__auto",
        "range": drawn,
        "instant": not drawn,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _defaults(panel: Panel) -> Json:
    found: Json = {"unit": panel.unit}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none"}
        found["custom"] = {
            "fillOpacity": 20 if panel.stacked else 5,
            "stacking": stacking,
            "showPoints": "never",
            "axisSoftMin": 0,
        }
    return found


def _options(panel: Panel) -> Json:
    last: Json = {"calcs": ["lastNotNull"]}
    match panel.kind:
        case "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case "stat":
            return {"reduceOptions": last, "colorMode": "none", "graphMode": "none"}
        case "bargauge":
            return {"reduceOptions": last, "orientation": "horizontal", "displayMode": "basic"}
        case _:
            return {"showHeader": True}
