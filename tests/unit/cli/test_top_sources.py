"""How old a cluster's objects are, in `slackwater top`."""

import pytest

from slackwater.cli.top_view import header_lines
from slackwater.record.overview import NodeRow, Overview, SourceRow

SOURCES = (SourceRow("pods", 7.0), SourceRow("node", 61.2, "refused"))


@pytest.mark.parametrize(
    ("sources", "width", "said"),
    [
        (SOURCES, 110, "node heard 61 s ago"),
        (SOURCES, 79, ""),
        ((), 110, ""),
    ],
)
def test_the_oldest_source_is_in_the_header(
    sources: tuple[SourceRow, ...], width: int, said: str
) -> None:
    shown = Overview(state="acting", node=NodeRow(allocatable=4000), sources=sources)
    text = "\n".join(line.plain for line in header_lines(shown, width))
    assert ("heard" in text) is bool(said)
    assert said in text
