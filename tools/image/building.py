"""One build: the Dockerfile's stages, step by step, each kept under the hash of all that made it.

Owns the order of the work and the cache. A step whose key is known is not done again; what is
finished appears by one rename. Runs as root: it makes files of every owner, and mounts.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.children import Children
from tools.console import ProgressLine
from tools.image.archive import write_archive
from tools.image.base import base_key, make_base
from tools.image.chamber import Order, run_in_root
from tools.image.context import Context
from tools.image.dockerfile import json_list, read_stages, refusal
from tools.image.failure import ImageError
from tools.image.machine import Machine, this_machine
from tools.image.planning import PlannedStage, PlannedStep, plan_stages
from tools.image.recipe import key_of
from tools.vm.cache import publish, scratch_folder, sole_builder

ARCHIVE = "image.tar"
#: Seconds after which a step that no build has asked for is removed.
_FORGET_AFTER = 14 * 24 * 3600.0
#: Each change of our code makes another one.
_KEPT_ARCHIVES = 4
_LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where and with what a build is done. `base` makes a root; a test has a smaller one."""

    children: Children
    cache: Path
    context: Context
    machine: Machine
    tell: Callable[[str], None]
    base: Callable[[Children, Path, Machine], None] = make_base
    base_key: Callable[[str], str] = base_key


def build(children: Children, folder: Path, cache: Path, tag: str) -> Path:
    """The archive of the folder's Dockerfile, made where the cache has none."""
    stages = read_stages((folder / "Dockerfile").read_text())
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
            shop = Workshop(children, cache, context, machine, line.tell)
            if not final.exists():  # another process may have built it while this one waited
                build_archive(shop, planned, tag, final)
            forget_old(cache, time.time())
    return final


def build_archive(shop: Workshop, planned: tuple[PlannedStage, ...], tag: str, final: Path) -> None:
    with scratch_folder(shop.cache) as scratch:
        roots: dict[str, Path] = {}
        for stage in planned:
            roots[stage.name] = scratch / f"root-{stage.name}"
            make_stage(shop, stage, roots)
        shop.tell("packing")
        folder = scratch / "finished"
        folder.mkdir()
        write_archive(roots[planned[-1].name], planned[-1].recipe, tag, folder / ARCHIVE)
        publish(folder, final.parent)


def make_stage(shop: Workshop, stage: PlannedStage, roots: Mapping[str, Path]) -> None:
    """From the latest step that is kept. Only RUN is worth keeping, but not as a stage's last
    step: that one is made of our own code, and new with each change of it."""
    root = roots[stage.name]
    todo = list(stage.steps)
    kept = [number for number, step in enumerate(todo) if _kept(shop.cache, step.key).exists()]
    if kept:
        os.utime(_kept(shop.cache, todo[kept[-1]].key))
        _copy_tree(_kept(shop.cache, todo[kept[-1]].key), root)
        todo = todo[kept[-1] + 1 :]
    else:
        _make_base(shop, stage.base, root)
    for planned in todo:
        shop.tell(f"line {planned.step.line}, {planned.step.word}")
        do_step(shop, planned, root, roots)
        if planned.step.word == "RUN" and planned is not stage.steps[-1]:
            _keep(shop.cache, planned.key, root)


def do_step(shop: Workshop, planned: PlannedStep, root: Path, roots: Mapping[str, Path]) -> None:
    match planned.step.word:
        case "RUN":
            _run(shop, planned, root)
        case "COPY":
            _copy(shop, planned, root, roots)
        case "WORKDIR":
            (root / planned.after.folder.strip("/")).mkdir(parents=True, exist_ok=True)


def _run(shop: Workshop, planned: PlannedStep, root: Path) -> None:
    before, step = planned.before, planned.step
    command = json_list(step) or ["/bin/sh", "-c", step.text]
    home = {"HOME": "/root"} if not before.user else {}
    order = Order(command, {**home, **before.known()}, before.folder, before.user)
    code, said = run_in_root(shop.children, root, order, shop.machine)
    if code != 0:
        words = "\n".join(said.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"
        raise refusal(step, f"it ended with {code}:\n{words}")


def _copy(shop: Workshop, planned: PlannedStep, root: Path, roots: Mapping[str, Path]) -> None:
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
        is_file = (shop.context.folder / source).is_file()
        into = place / os.path.basename(source) if is_file and target.endswith("/") else place
        shop.context.copy(source, into)


def _make_base(shop: Workshop, image: str, root: Path) -> None:
    kept = _kept(shop.cache, f"base-{shop.base_key(image)}")
    if not kept.exists():
        shop.tell(f"making {image} with debootstrap")
        made = root.with_name("base")
        shop.base(shop.children, made, shop.machine)
        publish(made, kept)
    os.utime(kept)
    _copy_tree(kept, root)


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
