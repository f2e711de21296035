"""Keys of steps: what makes a build begin anew, and from where."""

from pathlib import Path

import pytest

from tools.image.building import Context, PlannedStage, plan_stages
from tools.image.dockerfile import ImageError, read_stages

TWO = """\
FROM base AS build
ARG VERSION=1
RUN fetch $VERSION
WORKDIR /source
COPY lock .
RUN depend
COPY src ./src
RUN make
FROM base
RUN prepare
COPY --from=build /out /out
ENV A=b
USER 1
"""


def base_key(image: str) -> str:
    return f"key of {image}"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("1")
    (tmp_path / "lock").write_text("1")
    return Context(tmp_path)


def plan(text: str, context: Context) -> tuple[PlannedStage, ...]:
    return plan_stages(read_stages(text), context, base_key)


def keys(text: str, context: Context) -> list[str]:
    return [step.key for stage in plan(text, context) for step in stage.steps]


def changed(before: list[str], after: list[str]) -> list[int]:
    return [
        number for number, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1
    ]


def test_the_same_files_are_the_same_keys(context: Context) -> None:
    assert keys(TWO, context) == keys(TWO, context)
    assert len(set(keys(TWO, context))) == 11


def test_new_code_leaves_the_dependencies_alone(context: Context) -> None:
    before = keys(TWO, context)
    (context.folder / "src/a.py").write_text("2")
    # COPY src, RUN make; of the last stage all but what it prepared
    assert changed(before, keys(TWO, context)) == [5, 6, 8, 9, 10]


def test_a_new_lock_leaves_the_tools_alone(context: Context) -> None:
    before = keys(TWO, context)
    (context.folder / "lock").write_text("2")
    assert changed(before, keys(TWO, context)) == [3, 4, 5, 6, 8, 9, 10]


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("VERSION=1", "VERSION=2", 0),
        ("RUN fetch", "RUN  get", 1),
        ("/source", "/elsewhere", 2),
        ("RUN prepare", "RUN repair", 7),
        ("A=b", "A=c", 9),
    ],
)
def test_a_changed_line_changes_what_follows(
    context: Context, old: str, new: str, first: int
) -> None:
    different = changed(keys(TWO, context), keys(TWO.replace(old, new), context))
    assert different[0] == first


def test_a_run_knows_what_was_said_before_it(context: Context) -> None:
    one = keys("FROM base\nENV A=1\nRUN x", context)
    other = keys("FROM base\nENV A=2\nRUN x", context)
    assert changed(one, other) == [0, 1]


def test_before_and_after(context: Context) -> None:
    build, final = plan(TWO, context)
    fetch, copy = build.steps[1], build.steps[3]
    assert fetch.before.known()["VERSION"] == "1"
    assert copy.before.folder == "/source"
    assert (final.recipe.user, final.recipe.environment["A"]) == ("1", "b")
    assert "VERSION" not in final.recipe.known()


def test_a_stage_without_steps_is_its_base(context: Context) -> None:
    [only] = plan("FROM base", context)
    assert (only.key, only.recipe.user) == ("key of base", "")


def test_a_stage_that_comes_later_cannot_be_copied_from(context: Context) -> None:
    with pytest.raises(ImageError, match="there is no stage later before it"):
        plan("FROM base\nCOPY --from=later /a /a\nFROM base AS later", context)
