"""Samples are found in a page, compared and rewritten; an agent answers from a scenario."""

from pathlib import Path

import pytest

from tools.samples import (
    Sample,
    SampleError,
    difference,
    main,
    pages,
    printed,
    rewritten,
    samples_in,
)

PAGE = Path("page.md")
INDENTED = """\
Words.

<!-- sample: slackwater cpus; agent: a.yaml; width: 80 -->

    one

      two

Words again.
"""
FENCED = """\
<!-- sample: slackwater version -->
```text
one

two
```
"""


def sample(*text: str, command: str = "slackwater version", agent: str = "") -> Sample:
    return Sample(
        page=PAGE,
        first=3,
        last=3 + len(text),
        indent="    ",
        command=command,
        text=text,
        agent=agent,
    )


def test_an_indented_block() -> None:
    (found,) = samples_in(PAGE, INDENTED)
    assert found.command == "slackwater cpus"
    assert (found.agent, found.width) == ("a.yaml", 80)
    assert found.text == ("one", "", "  two")
    assert found.place() == "page.md:5"


def test_a_fenced_block() -> None:
    (found,) = samples_in(PAGE, FENCED)
    assert found.text == ("one", "", "two")
    assert (found.indent, found.agent, found.width) == ("", "", 100)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "<!-- sample: slackwater cpus; colour: red -->\n\n    x\n",
            "page.md:1: colour is no option",
        ),
        (
            "<!-- sample: rm -rf / -->\n\n    x\n",
            "page.md:1: 'rm -rf /' is not a slackwater command",
        ),
        ("<!-- sample: slackwater cpus -->\n\nwords\n", "page.md:1: no block follows"),
        ("<!-- sample: slackwater cpus -->\n", "page.md:1: no block follows"),
        ("<!-- sample: slackwater cpus -->\n```text\nx\n", "page.md:1: the block has no end"),
    ],
)
def test_a_comment_that_cannot_be_followed(content: str, told: str) -> None:
    with pytest.raises(SampleError, match=f"^{told}$"):
        list(samples_in(PAGE, content))


@pytest.mark.parametrize(
    ("text", "now", "same"),
    [
        (("a", "b"), ("a", "b"), True),
        (("a", "b"), ("a", "c"), False),
        (("a",), ("a", "b"), False),
        (("$ slackwater version", "a"), ("a",), True),
        (("a", "…"), ("a", "b", "c"), True),
        (("…", "c"), ("a", "b", "c"), True),
        (("a", "…", "d"), ("a", "b", "c", "d"), True),
        (("a", "…", "d"), ("a", "b", "c"), False),
        (("…", "b", "…"), ("a", "c", "d"), False),
        (("by version … of it",), ("by version 0.1 of it",), True),
        (("by version … of it",), ("by version 0.1 of that",), False),
        (("set 12 s ago",), ("set 15 s ago",), True),
        (("cooling for 7 s", "until 21:50:48"), ("cooling for 9 s", "until 08:00:00"), True),
        (("quota 12m",), ("quota 15m",), False),
    ],
)
def test_what_counts_as_the_same(text: tuple[str, ...], now: tuple[str, ...], same: bool) -> None:
    assert (difference(sample(*text), now) == "") is same


def test_a_difference_shows_both() -> None:
    told = difference(sample("old"), ("new",))
    assert "-old" in told
    assert "+new" in told
    assert "page.md:4" in told


def test_a_block_is_rewritten_in_its_place() -> None:
    (found,) = samples_in(PAGE, INDENTED)
    assert rewritten(INDENTED, found, ("three", "")) == INDENTED.replace(
        "    one\n\n      two\n", "    three\n\n"
    )


def test_the_prompt_stays() -> None:
    content = "<!-- sample: slackwater version -->\n\n    $ slackwater version\n    0\n"
    (found,) = samples_in(PAGE, content)
    assert rewritten(content, found, ("1",)).endswith("    $ slackwater version\n    1\n")


def test_a_scenario_that_cannot_be_read(tmp_path: Path) -> None:
    scenario = tmp_path / "bad.yaml"
    scenario.write_text("kind: Scenario\n")
    with pytest.raises(SampleError, match=r"bad\.yaml"):
        printed(sample("x", agent=str(scenario)))


@pytest.mark.long
def test_a_command_that_fails_is_told() -> None:
    with pytest.raises(SampleError, match=r"printed no result: (?s:.*)no-such-command"):
        printed(sample("x", command="slackwater no-such-command"))


@pytest.mark.long
def test_pages_are_written_anew_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text("<!-- sample: slackwater version -->\n\n    0\n")
    for name in ("docs", "examples"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tools.samples.ROOT", tmp_path)
    assert pages() == (Path("README.md"),)
    assert main(["--check"]) == 1
    assert "-0\n" in capsys.readouterr().out
    assert main([]) == 0
    assert main(["--check"]) == 0
    page.write_text("<!-- sample: slackwater version -->\n\n    0\n    …\n")
    assert main([]) == 1
    assert "    0\n" in page.read_text()
