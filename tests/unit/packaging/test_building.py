"""A build's order and its cache, with a base and commands that need no root."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.children import Children
from tools.image import building
from tools.image.archive import extract_layer, read_configuration
from tools.image.base import Machine, Order
from tools.image.building import ARCHIVE, Builder, Context, build_archive, forget_old, plan_stages
from tools.image.dockerfile import ImageError, read_stages

TEXT = """\
FROM base AS build
RUN tools
WORKDIR /source
COPY lock pyproject ./
RUN depend
COPY src ./src
RUN make
FROM base
RUN prepare
COPY --from=build /source /app
COPY lock /etc/lock
USER 1
ENTRYPOINT ["program"]
"""


class Shop:
    """Guards a folder, and the commands that were run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "repository", folder / "cache"
        (self.folder / "src").mkdir(parents=True)
        self.cache.mkdir()
        for name in ("lock", "pyproject", "src/a.py"):
            (self.folder / name).write_text("1")
        self.ran: list[str] = []
        self.bases = 0
        self.fails_at = ""
        self.told: list[str] = []

    def make_base(self, _children: Children, root: Path, _machine: Machine) -> None:
        self.bases += 1
        (root / "etc").mkdir(parents=True)
        (root / "etc/base").write_text("base")

    def run(self, _: Children, root: Path, order: Order, _machine: Machine) -> tuple[int, str]:
        """Each command leaves a file of its name where it ran."""
        name = order.command[-1]
        self.ran.append(name)
        (root / order.folder.strip("/") / f"made-by-{name}").write_text(name)
        return (3, "first\nlast words\n") if name == self.fails_at else (0, "")

    def build(self, text: str = TEXT) -> Path:
        context = Context(self.folder)
        planned = plan_stages(read_stages(text), context, lambda image: f"key-{image}")
        final = self.cache / planned[-1].key / ARCHIVE
        machine = Machine(self.folder, {})
        shop = Builder(
            Children(self.folder), self.cache, context, machine, self.told.append,
            self.make_base, lambda image: f"key-{image}",
        )  # fmt: skip
        build_archive(shop, planned, "name:1", final)
        return final


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path)
    monkeypatch.setattr(building, "run_in_root", made.run)
    return made


def test_steps_are_done_in_order_and_land_where_they_should(shop: Shop, tmp_path: Path) -> None:
    archive = shop.build()
    assert shop.ran == ["tools", "depend", "make", "prepare"]
    extract_layer(archive, tmp_path / "root")
    found = sorted(str(p.relative_to(tmp_path / "root")) for p in (tmp_path / "root").rglob("*"))
    assert found == [
        "app", "app/lock", "app/made-by-depend", "app/made-by-make", "app/pyproject", "app/src",
        "app/src/a.py", "etc", "etc/base", "etc/lock", "made-by-prepare",
    ]  # fmt: skip
    assert read_configuration(archive)["config"] == {
        "Env": read_configuration(archive)["config"]["Env"],  # type: ignore[index]
        "Entrypoint": ["program"],
        "WorkingDir": "/",
        "User": "1",
    }


def test_the_base_is_made_once(shop: Shop) -> None:
    shop.build()
    shop.build(TEXT.replace("RUN tools", "RUN others"))
    assert shop.bases == 1


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda _: None, ["make"]),
        (lambda shop: (shop.folder / "src/a.py").write_text("2"), ["make"]),
        (lambda shop: (shop.folder / "lock").write_text("2"), ["depend", "make"]),
    ],
    ids=["nothing", "code", "lock"],
)
def test_what_is_kept_is_not_done_again(
    shop: Shop, change: Callable[[Shop], object], again: list[str]
) -> None:
    """A stage's last command is not kept: it is made of our code, and changes with it."""
    shop.build()
    shop.ran.clear()
    change(shop)
    shop.build(TEXT + "CMD []\n")
    assert shop.ran == again


def test_a_command_that_fails_is_told_with_its_words(shop: Shop) -> None:
    shop.fails_at = "depend"
    with pytest.raises(ImageError) as refused:
        shop.build()
    assert str(refused.value) == "Dockerfile line 5, RUN: it ended with 3:\nfirst\nlast words"
    assert [*shop.cache.glob(f"*/{ARCHIVE}")] == []
    assert [*shop.cache.glob(".unfinished-*")] == []


def test_after_a_failure_the_steps_before_it_are_kept(shop: Shop) -> None:
    shop.fails_at = "depend"
    with pytest.raises(ImageError):
        shop.build()
    shop.fails_at = ""
    shop.ran.clear()
    shop.build()
    assert shop.ran == ["depend", "make", "prepare"]


def test_a_folder_that_no_stage_made(shop: Shop) -> None:
    with pytest.raises(ImageError, match="there is no folder /none in stage build"):
        shop.build(TEXT.replace("build /source", "build /none"))


def test_progress_names_lines(shop: Shop) -> None:
    shop.build()
    assert shop.told[:3] == ["making base with debootstrap", "line 2, RUN", "line 3, WORKDIR"]
    assert shop.told[-1] == "packing"


def test_old_steps_and_all_but_the_latest_archives_are_forgotten(tmp_path: Path) -> None:
    import os

    day = 24 * 3600.0
    for name, age in (("steps/new", 1 * day), ("steps/old", 15 * day)):
        (tmp_path / name).mkdir(parents=True)
        os.utime(tmp_path / name, (100 * day - age, 100 * day - age))
    for number in range(6):
        (tmp_path / f"key{number}").mkdir()
        (tmp_path / f"key{number}" / ARCHIVE).touch()
        os.utime(tmp_path / f"key{number}", (number, number))
    forget_old(tmp_path, 100 * day)
    left = sorted(path.name for path in tmp_path.glob("*"))
    assert left == ["key2", "key3", "key4", "key5", "steps"]
    assert [path.name for path in (tmp_path / "steps").iterdir()] == ["new"]
