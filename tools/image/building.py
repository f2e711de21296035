"""One build: the Dockerfile's stages, step by step, each kept under the hash of all that made it.

Owns the order of the work and the cache. A step whose key is known is not done again; what is
finished appears by one rename. Runs as root: it makes files of every owner, and mounts.
"""

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cache import publish, scratch_folder, sole_builder
from tools.children import Children
from tools.console import ProgressLine
from tools.image.archive import write_archive, write_layer
from tools.image.base import IMAGE, Machine, Order, base_key, make_base, run_in_root, this_machine
from tools.image.dockerfile import (
    ImageError,
    Recipe,
    Stage,
    Step,
    json_list,
    key_of,
    read_stages,
    refusal,
)


@dataclass(frozen=True, slots=True)
class Context:
    """A folder, and its .dockerignore's patterns in order; the last that matches wins."""

    folder: Path
    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> "Context":
        file = folder / ".dockerignore"
        rows = file.read_text().splitlines() if file.exists() else []
        bare = (row.strip() for row in rows)
        return cls(folder, tuple(row for row in bare if row and not row.startswith("#")))

    def ignores(self, name: str) -> bool:
        """Whether a path, with slashes and without a leading one, is left out."""
        parts = name.split("/")
        above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        ignored = False
        for row in self.patterns:
            pattern = _pattern(row.removeprefix("!"))
            if any(pattern.fullmatch(path) for path in above):
                ignored = not row.startswith("!")
        return ignored

    def files(self, source: str) -> list[str]:
        """The files below a path of the context, in order."""
        top = self.folder / source
        if not top.exists() and not top.is_symlink():
            raise ImageError(f"COPY {source}: there is no such file in {self.folder.name}")
        if not top.is_dir() or top.is_symlink():
            return [] if self.ignores(_slashes(source)) else [_slashes(source)]
        found = (
            _slashes(os.path.relpath(os.path.join(place, name), self.folder))
            for place, _, names in os.walk(top)
            for name in names
        )
        return sorted(name for name in found if not self.ignores(name))

    def digest(self, sources: Sequence[str]) -> str:
        hashed = hashlib.sha256()
        for name in (name for source in sources for name in self.files(source)):
            path = self.folder / name
            mode = "x" if os.access(path, os.X_OK) else "-"
            hashed.update(f"{name}\0{mode}\0".encode())
            hashed.update(hashlib.sha256(path.read_bytes()).digest())
        return hashed.hexdigest()

    def copy(self, source: str, target: Path) -> None:
        """A folder's content goes into the target, a file becomes it."""
        is_folder = (self.folder / source).is_dir()
        for name in self.files(source):
            inner = os.path.relpath(name, source) if is_folder else ""
            copy_file(self.folder / name, target / inner if inner else target)


def copy_file(source: Path, target: Path) -> None:
    """As an engine does: owned by root, with modes that do not depend on the person's umask."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _slashes(path: str) -> str:
    return os.path.normpath(path).replace(os.sep, "/")


def _pattern(row: str) -> re.Pattern[str]:
    """** is any number of folders, * and ? stay within one (moby/patternmatcher)."""
    written = ""
    for token in re.findall(r"\*\*/?|\*|\?|[^*?]+", row.strip("/")):
        match token:
            case "**/":
                written += "(?:.*/)?"
            case "**":
                written += ".*"
            case "*":
                written += "[^/]*"
            case "?":
                written += "[^/]"
            case _:
                written += re.escape(token)
    return re.compile(written)


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


ARCHIVE = "image.tar"
#: Seconds after which a step that no build has asked for is removed.
_FORGET_AFTER = 14 * 24 * 3600.0
#: Each change of our code makes another one.
_KEPT_ARCHIVES = 4
_LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class Builder:
    """Where and with what a build is done. `base` makes a root; a test has a smaller one."""

    children: Children
    cache: Path
    context: Context
    machine: Machine
    tell: Callable[[str], None]
    base: Callable[[Children, Path, Machine], None] = make_base
    base_key: Callable[[str], str] = base_key


def build(children: Children, folder: Path, cache: Path, tag: str, target: str = "") -> Path:
    """The archive of the folder's Dockerfile, made where the cache has none. `target` is the stage
    that becomes the image; without it, the last."""
    stages = stages_up_to(read_stages((folder / "Dockerfile").read_text()), target)
    context = Context.of(folder)
    cache.mkdir(parents=True, exist_ok=True)
    with this_machine(os.environ) as machine:
        shown = ProgressLine(f"image: building {tag}", sys.stderr)
        planned = plan_stages(stages, context, base_key)
        final = cache / f"{key_of(planned[-1].key, tag)}" / ARCHIVE
        if final.exists():
            os.utime(final.parent)
            return final
        with sole_builder(cache), shown as line:
            builder = Builder(children, cache, context, machine, line.tell)
            if not final.exists():  # another process may have built it while this one waited
                build_archive(builder, planned, tag, final)
            forget_old(cache, time.time())
    return final


def stages_up_to(stages: Sequence[Stage], target: str) -> tuple[Stage, ...]:
    """Those that the target may be made of. The last one is made of no other image."""
    if not target:
        images = {step.flags.get("from") for stage in stages for step in stage.steps}
        return tuple(each for each in stages if each is stages[-1] or each.name in images)
    names = [each.name for each in stages]
    if target not in names:
        raise ImageError(f"the Dockerfile has no stage {target}; it has {', '.join(names)}")
    return tuple(stages[: names.index(target) + 1])


def build_archive(
    builder: Builder, planned: tuple[PlannedStage, ...], tag: str, final: Path
) -> None:
    with scratch_folder(builder.cache) as scratch:
        roots: dict[str, Path] = {}
        for stage in planned:
            roots[stage.name] = scratch / f"root-{stage.name}"
            make_stage(builder, stage, roots)
        builder.tell("packing")
        folder = scratch / "finished"
        folder.mkdir()
        write_archive(roots[planned[-1].name], planned[-1].recipe, tag, folder / ARCHIVE)
        publish(folder, final.parent)


def make_stage(builder: Builder, stage: PlannedStage, roots: Mapping[str, Path]) -> None:
    """From the latest step that is kept. Only RUN is worth keeping, but not as a stage's last
    step: that one is made of our own code, and new with each change of it."""
    root = roots[stage.name]
    todo = list(stage.steps)
    kept = [number for number, step in enumerate(todo) if _kept(builder.cache, step.key).exists()]
    if kept:
        os.utime(_kept(builder.cache, todo[kept[-1]].key))
        _copy_tree(_kept(builder.cache, todo[kept[-1]].key), root)
        todo = todo[kept[-1] + 1 :]
    else:
        _make_base(builder, stage.base, root)
    for planned in todo:
        builder.tell(f"line {planned.step.line}, {planned.step.word}")
        do_step(builder, planned, root, roots)
        if planned.step.word == "RUN" and planned is not stage.steps[-1]:
            _keep(builder.cache, planned.key, root)


def do_step(builder: Builder, planned: PlannedStep, root: Path, roots: Mapping[str, Path]) -> None:
    match planned.step.word:
        case "RUN":
            _run(builder, planned, root)
        case "COPY":
            _copy(builder, planned, root, roots)
        case "WORKDIR":
            (root / planned.after.folder.strip("/")).mkdir(parents=True, exist_ok=True)


def _run(builder: Builder, planned: PlannedStep, root: Path) -> None:
    before, step = planned.before, planned.step
    command = json_list(step) or ["/bin/sh", "-c", step.text]
    home = {"HOME": "/root"} if not before.user else {}
    order = Order(command, {**home, **before.known()}, before.folder, before.user)
    code, said = run_in_root(builder.children, root, order, builder.machine)
    if code != 0:
        words = "\n".join(said.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"
        raise refusal(step, f"it ended with {code}:\n{words}")


def _copy(builder: Builder, planned: PlannedStep, root: Path, roots: Mapping[str, Path]) -> None:
    sources, target = planned.before.copied(planned.step)
    stage = planned.step.flags.get("from")
    for source in sources:
        place = root / target.strip("/")
        if stage is not None:
            taken = roots[stage] / source.strip("/")
            if not taken.is_dir():
                raise refusal(planned.step, f"there is no folder {source} in stage {stage}")
            _copy_tree(taken, place)
            continue
        is_file = (builder.context.folder / source).is_file()
        into = place / os.path.basename(source) if is_file and target.endswith("/") else place
        builder.context.copy(source, into)


def _make_base(builder: Builder, image: str, root: Path) -> None:
    _copy_tree(_keep_base(builder, image, root.with_name("base")), root)


def _keep_base(builder: Builder, image: str, made: Path) -> Path:
    kept = _kept(builder.cache, f"base-{builder.base_key(image)}")
    if not kept.exists():
        builder.tell(f"making {image} with debootstrap")
        builder.base(builder.children, made, builder.machine)
        publish(made, kept)
    os.utime(kept)
    return kept


def kept_base(children: Children, cache: Path) -> str:
    """The digest of the base that the cache has, or that is made now: of all its files as a
    layer."""
    cache.mkdir(parents=True, exist_ok=True)
    with (
        this_machine(os.environ) as machine,
        sole_builder(cache),
        scratch_folder(cache) as scratch,
        ProgressLine("image: the base", sys.stderr) as line,
    ):
        builder = Builder(children, cache, Context(cache), machine, line.tell)
        layer = scratch / "layer"
        write_layer(_keep_base(builder, IMAGE, scratch / "base"), layer)
        with layer.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def lend_base(cache: Path, other: Path) -> None:
    """So that a build in the other cache stands on the same base, and on nothing else."""
    for base in (cache / "steps").glob("base-*"):
        _copy_tree(base, _kept(other, base.name))


def _kept(cache: Path, key: str) -> Path:
    return cache / "steps" / key


def _keep(cache: Path, key: str, root: Path) -> None:
    with scratch_folder(cache) as scratch:
        _copy_tree(root, scratch / "root")
        publish(scratch / "root", _kept(cache, key))


def _copy_tree(source: Path, target: Path) -> None:
    """With owners, modes, links and times, into the target where that is there already."""
    target.mkdir(parents=True, exist_ok=True)
    code, said = Children(source).run_quietly(
        ["cp", "-a", "--reflink=auto", "--", f"{source}/.", f"{target}/"], {}
    )
    if code != 0:
        raise ImageError(f"cp failed: {said.strip()}")


def forget_old(cache: Path, now: float) -> None:
    """Steps that no build has used for two weeks, and all but the latest archives."""
    for step in (cache / "steps").glob("*"):
        if now - step.stat().st_mtime > _FORGET_AFTER:
            shutil.rmtree(step)
    archives = [archive.parent for archive in cache.glob(f"*/{ARCHIVE}")]
    latest = sorted(archives, key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in latest[_KEPT_ARCHIVES:]:
        shutil.rmtree(folder)
