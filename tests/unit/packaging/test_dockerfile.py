"""Reading a Dockerfile: what is understood, and the sentence for what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.image.dockerfile import (
    INSTRUCTIONS,
    ImageError,
    Step,
    arguments,
    json_list,
    pairs,
    read_stages,
    read_steps,
)
from tools.provision import ROOT

DOCKERFILE = ROOT / "Dockerfile"


def test_our_own_dockerfile_is_understood() -> None:
    build, manager, final = read_stages(DOCKERFILE.read_text())
    assert (manager.name, manager.base) == ("manager", final.base)
    assert (build.name, build.base) == ("build", "debian:bookworm-slim")
    assert (final.name, final.base) == ("2", "debian:bookworm-slim")
    assert final.steps[-1] == Step(final.steps[-1].line, "CMD", '["--help"]')


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("FROM a", [Step(1, "FROM", "a")]),
        ("from a", [Step(1, "FROM", "a")]),
        ("# a comment\n\nFROM a", [Step(3, "FROM", "a")]),
        ("RUN a \\\n && b", [Step(1, "RUN", "a && b")]),
        ("RUN a \\\n# between\n && b", [Step(1, "RUN", "a && b")]),
        ("RUN a \\\n\n && b", [Step(1, "RUN", "a && b")]),
        ("RUN a\nRUN b", [Step(1, "RUN", "a"), Step(2, "RUN", "b")]),
        ("COPY --from=x a b", [Step(1, "COPY", "a b", {"from": "x"})]),
        ("RUN a --flag=b", [Step(1, "RUN", "a --flag=b")]),
    ],
)
def test_steps(text: str, steps: list[Step]) -> None:
    assert [*read_steps(text)] == steps


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("FROM a\nADD b c", "line 2, ADD: this instruction is not understood; FROM, ARG"),
        ("ONBUILD RUN a", "line 1, ONBUILD: this instruction is not understood"),
        ("FROM --platform=x a", "line 1, FROM: the flag --platform=x is not understood"),
        ("RUN --mount=type=cache a", "line 1, RUN: the flag --mount=type=cache is not"),
        ("COPY --link a b", "line 1, COPY: the flag --link is not understood"),
        ("COPY --from=x --chown=1:2 a b", "line 1, COPY: the flag --chown=1:2 is not understood"),
        ("COPY --chmod=1 a b", "line 1, COPY: the flag --chmod=1 is not understood"),
        ("RUN <<EOF", "line 1, RUN: here-documents are not understood"),
        ("FROM", "line 1, FROM: nothing follows it"),
        ("COPY --from=x", "line 1, COPY: nothing follows it"),
        ("FROM a\nRUN b \\", "line 2: the last line goes on with a backslash"),
        ("# syntax=docker/dockerfile:1\nFROM a", "line 1: parser directives are not understood"),
        ("# escape=`\nFROM a", "line 1: parser directives are not understood"),
    ],
)
def test_what_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ImageError) as refused:
        read_steps(text)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("RUN a", "the Dockerfile must begin with FROM"),
        ("", "the Dockerfile must begin with FROM"),
        ("ARG A=b\nFROM a", "the Dockerfile must begin with FROM"),
        ("FROM a b c", "'a b c' is not IMAGE or IMAGE AS NAME"),
        ("FROM a AS", "'a AS' is not IMAGE or IMAGE AS NAME"),
    ],
)
def test_stages_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(ImageError) as refused:
        read_stages(text)
    assert sentence in str(refused.value)


def test_stages_are_named_or_numbered() -> None:
    stages = read_stages("FROM a AS one\nRUN x\nFROM b\nRUN y\nRUN z\nFROM c as three")
    assert [(each.name, each.base, len(each.steps)) for each in stages] == [
        ("one", "a", 1),
        ("1", "b", 2),
        ("three", "c", 0),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [('["a", "b c"]', ["a", "b c"]), ("a b", None), ("[]", [])],
)
def test_exec_form(text: str, words: list[str] | None) -> None:
    assert json_list(Step(1, "CMD", text)) == words


@pytest.mark.parametrize("text", ["[1]", "['a']", '["a"', '["a", null]'])
def test_a_list_that_is_none(text: str) -> None:
    with pytest.raises(ImageError, match="its list is no list of texts"):
        json_list(Step(3, "CMD", text))


def test_words_of_a_copy() -> None:
    assert arguments(Step(1, "COPY", "a b  c")) == ["a", "b", "c"]
    assert arguments(Step(1, "COPY", '["a b", "c"]')) == ["a b", "c"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=b", [("A", "b")]),
        ("A=b C=d", [("A", "b"), ("C", "d")]),
        ('A="b c"', [("A", "b c")]),
        ("A=b=c", [("A", "b=c")]),
        ("org.example.a-b=c", [("org.example.a-b", "c")]),
        ("A=", [("A", "")]),
    ],
)
def test_pairs(text: str, found: list[tuple[str, str]]) -> None:
    assert pairs(Step(1, "ENV", text)) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A b", "line 1, ENV: 'A' is not KEY=VALUE"),
        ("=b", "'=b' is not KEY=VALUE"),
        ("1A=b", "'1A=b' is not KEY=VALUE"),
        ('A="b', "it cannot be read: No closing quotation"),
    ],
)
def test_no_pairs(text: str, sentence: str) -> None:
    with pytest.raises(ImageError) as refused:
        pairs(Step(1, "ENV", text))
    assert sentence in str(refused.value)


@given(st.text(alphabet=" \\#\nFROMRUNab\"'[]=-<$", max_size=60))
def test_any_text_is_steps_or_one_sentence(text: str) -> None:
    try:
        found = read_steps(text)
    except ImageError as error:
        assert "\n" not in str(error)
    else:
        assert all(step.word in INSTRUCTIONS and step.text for step in found)
