"""What a build will do, before it does anything: each step with its key and what is said around it.

Owns the keys: a step's is made of the one before it, its own text, what is known to it and what it
copies. Touches nothing but the files whose digest it needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.image.context import Context
from tools.image.dockerfile import Stage, Step, refusal
from tools.image.recipe import Recipe, key_of


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """`before` is what a RUN sees, `after` what the image says once it is done."""

    step: Step
    key: str
    before: Recipe
    after: Recipe


@dataclass(frozen=True, slots=True)
class PlannedStage:
    name: str
    base: str
    base_key: str
    steps: tuple[PlannedStep, ...]

    @property
    def key(self) -> str:
        return self.steps[-1].key if self.steps else self.base_key

    @property
    def recipe(self) -> Recipe:
        return self.steps[-1].after if self.steps else Recipe()


def plan_stages(
    stages: Sequence[Stage], context: Context, base_key: Callable[[str], str]
) -> tuple[PlannedStage, ...]:
    planned: dict[str, PlannedStage] = {}
    for stage in stages:
        planned[stage.name] = _plan(stage, context, base_key(stage.base), planned)
    return tuple(planned.values())


def _plan(
    stage: Stage, context: Context, base: str, earlier: dict[str, PlannedStage]
) -> PlannedStage:
    recipe, key, steps = Recipe(), base, []
    for step in stage.steps:
        after = recipe.after(step)
        known = sorted(recipe.known().items()) if step.word == "RUN" else []
        copied = _copied(step, recipe, context, earlier) if step.word == "COPY" else ""
        place = (recipe.folder, recipe.user) if step.word in ("RUN", "COPY") else ()
        flags = sorted(step.flags.items())
        key = key_of(key, step.word, step.text, str(flags), str(known), str(place), copied)
        steps.append(PlannedStep(step, key, recipe, after))
        recipe = after
    return PlannedStage(stage.name, stage.base, base, tuple(steps))


def _copied(step: Step, recipe: Recipe, context: Context, earlier: dict[str, PlannedStage]) -> str:
    """What stands for the files: their digest, or the key of the stage that makes them."""
    sources, _ = recipe.copied(step)
    stage = step.flags.get("from")
    if stage is None:
        return context.digest(sources)
    if stage not in earlier:
        raise refusal(step, f"there is no stage {stage} before it")
    return earlier[stage].key
