"""The report as one HTML file: nothing is fetched, no script runs, it prints, light and dark.

All text is escaped here, once. The picture is embedded as a document of its own, so that its style
sheet and the page's do not meet.
"""

import base64
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from slackwater.report.cluster_report import ClusterReport
from slackwater.report.day_picture import draw_days
from slackwater.report.sections import (
    Cell,
    KeyFigure,
    ReportSection,
    ReportTable,
    key_figures,
    sections,
    subtitle,
    title,
)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { color-scheme: light dark; --text: #1f2933; --faint: #5f6b7a; --ground: #ffffff;
  --panel: #f4f6f9; --rule: #dde2e9; --shade: 26, 127, 75; }
@media (prefers-color-scheme: dark) { :root { --text: #e8edf2; --faint: #9aa7b5;
  --ground: #11161d; --panel: #171e27; --rule: #2a333e; --shade: 79, 208, 138; } }
body { font: 15px/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; color: var(--text);
  background: var(--ground); max-width: 1200px; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p { max-width: 75ch; } .faint { color: var(--faint); margin-top: .2rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; }
dl div { background: var(--panel); border-radius: 10px; padding: .8rem 1rem;
  display: flex; flex-direction: column-reverse; }
dd { margin: 0; font-size: 1.7rem; font-weight: bold; } dt { color: var(--faint); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; }
th { color: var(--faint); font-weight: 600; } .word { text-align: left; }
td[style] { background: rgba(var(--shade), var(--share)); }
img { width: 100%; height: auto; margin-top: 1rem; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } .wide { overflow: visible; }
  h2 { break-after: avoid; } tr { break-inside: avoid; } thead { display: table-header-group; }
  td[style] { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
#: The darkest shade that text can still be read on.
_DARKEST = 0.45


def render_html(report: ClusterReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ClusterReport) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content={quoteattr(_POLICY)}>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title(report))}</title>"
    yield f"<style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{escape(title(report))}</h1>"
    yield f'<p class="faint">{escape(subtitle(report))}</p>'
    figures = list(key_figures(report))
    if figures:
        yield f"<dl>{''.join(map(_figure, figures))}</dl>"
    if picture := draw_days(report):
        data = base64.b64encode(picture.encode()).decode()
        words = "CPUs by day: used on average, idle, and what could be sold"
        yield f'<img alt="{words}" src="data:image/svg+xml;base64,{data}">'
    for section in sections(report):
        yield from _section(section)
    yield "</main></body></html>"


def _figure(figure: KeyFigure) -> str:
    return f"<div><dt>{escape(figure.meaning)}</dt><dd>{escape(figure.value)}</dd></div>"


def _section(section: ReportSection) -> Iterator[str]:
    yield f"<section><h2>{escape(section.title)}</h2>"
    yield from (f"<p>{escape(each)}</p>" for each in section.sentences)
    if section.table:
        yield from _table(section.table)
    yield "</section>"


def _table(table: ReportTable) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>'
    for place, name in enumerate(table.columns):
        yield f'<th scope="col"{_kind(place, table)}>{escape(name)}</th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = "".join(_cell(cell, _kind(place, table)) for place, cell in enumerate(row))
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"


def _kind(place: int, table: ReportTable) -> str:
    return ' class="word"' if place < table.words else ""


def _cell(cell: Cell, kind: str) -> str:
    shade = "" if cell.share is None else f' style="--share: {_DARKEST * cell.share:.2f}"'
    return f"<td{kind}{shade}>{escape(cell.text)}</td>"
