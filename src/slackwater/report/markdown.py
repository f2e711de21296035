"""The report as Markdown."""

from collections.abc import Iterator

from slackwater.report.cluster_report import ClusterReport
from slackwater.report.sections import ReportTable, key_figures, sections, subtitle, title

_SPECIAL = str.maketrans({"|": "\\|", "<": "&lt;", "*": "\\*", "_": "\\_"})


def render_markdown(report: ClusterReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ClusterReport) -> Iterator[str]:
    yield f"# {_plain(title(report))}"
    yield ""
    yield subtitle(report)
    figures = list(key_figures(report))
    if figures:
        yield ""
        yield from (f"- **{each.value}** {each.meaning}" for each in figures)
    for section in sections(report):
        yield from ("", f"## {section.title}", "")
        yield from (f"{_plain(each)}  " if len(section.sentences) > 1 else _plain(each)
                    for each in section.sentences)  # fmt: skip
        if section.table:
            yield ""
            yield from _table(section.table)


def _table(table: ReportTable) -> Iterator[str]:
    yield "| " + " | ".join(table.columns) + " |"
    yield "|" + "|".join("---" if place < table.words else "---:"
                         for place in range(len(table.columns))) + "|"  # fmt: skip
    for row in table.rows:
        yield "| " + " | ".join(_plain(cell.text) for cell in row) + " |"


def _plain(text: str) -> str:
    """On one line; names are other people's."""
    return " ".join(text.split()).translate(_SPECIAL)
