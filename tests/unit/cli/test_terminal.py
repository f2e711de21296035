"""Columns agree, the first gives way, and nothing is wider than the screen where that can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from slackwater.cli.terminal import TableColumn, aligned_lines

COLUMNS = (TableColumn("node"), TableColumn("state"), TableColumn("used", right=True))


def lines(width: int, *rows: tuple[str, str, str]) -> list[str]:
    shown = aligned_lines(COLUMNS, [tuple(map(Text, row)) for row in rows], width)
    return [line.plain for line in shown]


def test_numbers_stand_right() -> None:
    assert lines(80, ("a", "well", "1m"), ("bcd", "stale", "1000m")) == [
        "node  state   used",
        "a     well      1m",
        "bcd   stale  1000m",
    ]


def test_the_first_column_gives_way() -> None:
    rows = [("a-very-long-name-of-a-node.example", "well", "1000m")]
    assert lines(40, *rows)[1] == "a-very-long-name-of-a-nod…  well   1000m"
    assert max(map(len, lines(40, *rows))) <= 40


def test_but_not_all_of_it() -> None:
    assert lines(5, ("a-very-long-name", "well", "1m"))[1].startswith("a-very-long…")


def test_without_rows_there_is_a_header() -> None:
    assert lines(80) == ["node  state  used"]


def test_signs_that_are_two_columns_wide_are_counted_so() -> None:
    shown = lines(80, ("日本", "well", "1m"), ("abcd", "well", "1m"))
    assert shown[1] == "日本  well     1m"


@pytest.mark.parametrize("width", [30, 60, 100])
@given(
    st.lists(
        st.tuples(*(st.text("abc- ", max_size=size) for size in (40, 6, 6))), min_size=1, max_size=5
    )
)
def test_no_line_is_wider_than_the_screen(width: int, rows: list[tuple[str, str, str]]) -> None:
    shown = lines(width, *rows)
    assert len(shown) == len(rows) + 1
    assert len({len(line) for line in shown}) == 1
    assert len(shown[0]) <= width
