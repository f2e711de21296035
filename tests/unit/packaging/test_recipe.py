"""What each instruction makes of the image's description, and how variables expand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.image.dockerfile import BASE_PATH, ImageError, Recipe, Step, expand, key_of, read_steps

KNOWN = {"A": "one", "EMPTY": "", "LONG_1": "two"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$A", "one"),
        ("${A}", "one"),
        ("x$A/y", "xone/y"),
        ("$A$LONG_1", "onetwo"),
        ("${A}b", "oneb"),
        (r"\$A", "$A"),
        ("${EMPTY:-other}", "other"),
        ("${NONE:-other}", "other"),
        ("${A:-other}", "one"),
        ("$EMPTY", ""),
        ("a $ b", "a $ b"),
    ],
)
def test_expansion(text: str, expanded: str) -> None:
    assert expand(text, KNOWN) == expanded


@pytest.mark.parametrize("text", ["$NONE", "${NONE}", "$AB"])
def test_a_name_that_nobody_set(text: str) -> None:
    with pytest.raises(ImageError, match="which nothing in it sets"):
        expand(text, KNOWN)


@given(st.text(alphabet="abc /.:-", max_size=30))
def test_a_text_without_dollars_stays(text: str) -> None:
    assert expand(text, {}) == text


def after(text: str) -> Recipe:
    recipe = Recipe()
    for step in read_steps(text):
        recipe = recipe.after(step)
    return recipe


@pytest.mark.parametrize(
    ("text", "recipe"),
    [
        ("RUN a", Recipe()),
        ("COPY a b", Recipe()),
        ("ENV A=b", Recipe(environment={"PATH": BASE_PATH, "A": "b"})),
        ("ENV PATH=/x:$PATH", Recipe(environment={"PATH": f"/x:{BASE_PATH}"})),
        ("ENV A=b\nENV A=c", Recipe(environment={"PATH": BASE_PATH, "A": "c"})),
        ("ARG A=b", Recipe(arguments={"A": "b"})),
        ('LABEL a.b="c d"', Recipe(labels={"a.b": "c d"})),
        ("WORKDIR /a", Recipe(folder="/a")),
        ("WORKDIR /a\nWORKDIR b", Recipe(folder="/a/b")),
        ("USER 1:2", Recipe(user="1:2")),
        ('ENTRYPOINT ["a"]', Recipe(entry=("a",))),
        ('CMD ["b"]', Recipe(command=("b",))),
        # a new entry point forgets the base's command, as an engine does
        ('CMD ["b"]\nENTRYPOINT ["a"]', Recipe(entry=("a",))),
        ('ENTRYPOINT ["a"]\nCMD ["b"]', Recipe(entry=("a",), command=("b",))),
    ],
)
def test_what_is_said(text: str, recipe: Recipe) -> None:
    assert after(text) == recipe


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ARG A", "A has no default"),
        ("CMD a b", 'write it as a list: ["program", "argument"]'),
        ("ENTRYPOINT a", "write it as a list"),
        ("USER $WHO", "uses $WHO, which nothing in it sets"),
    ],
)
def test_what_cannot_be_said(text: str, sentence: str) -> None:
    with pytest.raises(ImageError) as refused:
        after(text)
    assert sentence in str(refused.value)


def test_env_wins_over_arg() -> None:
    assert after("ARG A=1\nENV A=2").known()["A"] == "2"
    assert after("ENV A=2\nARG A=1").known()["A"] == "2"


@pytest.mark.parametrize(
    ("folder", "text", "sources", "target"),
    [
        ("/", "a /b", ["a"], "/b"),
        ("/", "a /b/", ["a"], "/b/"),
        ("/w", "a b", ["a"], "/w/b"),
        ("/w", "a .", ["a"], "/w/"),
        ("/w", "a ./", ["a"], "/w/"),
        ("/w", "a ./b", ["a"], "/w/b"),
        ("/w", "a b /c", ["a", "b"], "/c/"),
        ("/w", '["a b", "/c"]', ["a b"], "/c"),
    ],
)
def test_copied(folder: str, text: str, sources: list[str], target: str) -> None:
    assert Recipe(folder=folder).copied(Step(1, "COPY", text)) == (sources, target)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("a", "it needs a source and a target"), ("*.py /a", "patterns are not understood")],
)
def test_not_copied(text: str, sentence: str) -> None:
    with pytest.raises(ImageError) as refused:
        Recipe().copied(Step(1, "COPY", text))
    assert sentence in str(refused.value)


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_are_equal_for_equal_texts(one: list[str], other: list[str]) -> None:
    if "\0" not in "".join((*one, *other)) and len(one) == len(other):
        assert (key_of(*one) == key_of(*other)) == (one == other)
