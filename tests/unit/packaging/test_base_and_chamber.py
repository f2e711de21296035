"""The base image's recipe, and what is mounted while a command runs: without being root."""

from pathlib import Path

import pytest

from tools.children import Children
from tools.image import base
from tools.image.__main__ import lacks, main, parse
from tools.image.base import IMAGE, MACHINE, Machine, Order, base_key, empty, make_base, run_in_root
from tools.image.dockerfile import ImageError


class Recorder(Children):
    """Runs nothing: keeps the command, and what stood in the root meanwhile."""

    def __init__(self, root: Path, code: int = 0, said: str = "") -> None:
        super().__init__(root)
        self.root, self.code, self.said = root, code, said
        self.commands: list[list[str]] = []
        self.standing: set[str] = set()

    def run_quietly(self, command, env):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG002
        self.commands.append([*command])
        self.standing |= {str(path.relative_to(self.root)) for path in self.root.rglob("*")}
        if command[0] == "debootstrap":
            _debootstrapped(self.root)
        return self.code, self.said


def _debootstrapped(root: Path) -> None:
    for name in ("etc/dpkg/dpkg.cfg.d", "etc/apt/sources.list.d", "usr/share/man/de/man1",
                 "usr/share/doc/bash/examples", "usr/share/locale/de", "var/lib/apt/lists",
                 "var/log", "run", "tmp"):  # fmt: skip
        (root / name).mkdir(parents=True)
    for name in ("etc/apt/sources.list", "usr/share/man/de/man1/ls.1", "usr/share/doc/bash/NEWS",
                 "usr/share/doc/bash/copyright", "var/lib/apt/lists/lock", "var/log/dpkg.log",
                 "etc/resolv.conf", "etc/hostname"):  # fmt: skip
        (root / name).write_text("x")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "etc").mkdir(parents=True)
    (made / "run").mkdir()
    return made


def test_what_a_command_needs_stands_there_and_is_gone_afterwards(root: Path) -> None:
    recorder = Recorder(root)
    machine = Machine(root.parent / "machine", {"https_proxy": "http://proxy.example"})
    run_in_root(recorder, root, Order(("true",), {"A": "b"}), machine)
    assert {"proc", "dev", MACHINE.strip("/"), "etc/resolv.conf", "etc/hosts"} <= recorder.standing
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["etc", "run"]


def test_what_was_there_stays(root: Path) -> None:
    (root / "proc").mkdir()
    (root / "etc/hosts").write_text("mine")
    run_in_root(Recorder(root), root, Order(("true",), {}), Machine(root.parent, {}))
    assert (root / "proc").is_dir()
    assert (root / "etc/hosts").read_text() == "mine"


@pytest.mark.parametrize(
    ("order", "ending"),
    [
        (
            Order(("echo", "a b"), {"A": "b"}, "/x y"),
            ["ROOT", "/usr/bin/env", "-i", "A=b", "sh", "-c", "cd '/x y' && exec \"$@\"", "sh",
             "echo", "a b"],
        ),
        (
            Order(("true",), {}, user="1:2"),
            ["--userspec=1:2", "ROOT", "/usr/bin/env", "-i", "sh", "-c", 'cd / && exec "$@"', "sh",
             "true"],
        ),
    ],
)  # fmt: skip
def test_the_command(root: Path, order: Order, ending: list[str]) -> None:
    recorder = Recorder(root)
    run_in_root(recorder, root, order, Machine(Path("/machine"), {}))
    [command] = recorder.commands
    wanted = [str(root) if word == "ROOT" else word for word in ending]
    assert command[-len(wanted) :] == wanted
    assert command[: len(base._UNSHARE)] == [*base._UNSHARE]
    assert command[command.index("-ec") + 2 :][:3] == ["sh", str(root), "/machine"]


def test_this_machines_settings_win_over_the_images(root: Path) -> None:
    recorder = Recorder(root)
    order = Order(("true",), {"https_proxy": "image's"})
    run_in_root(recorder, root, order, Machine(Path("/machine"), {"https_proxy": "machine's"}))
    assert "https_proxy=machine's" in recorder.commands[0]
    assert "https_proxy=image's" not in recorder.commands[0]


def test_only_one_base_can_be_made() -> None:
    assert base_key(IMAGE) == base_key(IMAGE)
    with pytest.raises(ImageError, match="begins with alpine:3, and only debian:bookworm-slim"):
        base_key("alpine:3")


def test_a_base_is_slim_and_names_debians_archive_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    make_base(Recorder(root), root, Machine(tmp_path, {}))
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert there == {
        "etc/dpkg/dpkg.cfg.d/docker",
        "etc/apt/sources.list.d/debian.sources",
        "usr/share/doc/bash/copyright",
    }
    assert (root / "var/lib/apt/lists").is_dir()
    assert not (root / "usr/share/man/de").exists()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [("I: x\nE: no mirror\n", "debootstrap failed: E: no mirror"), ("", "it said nothing")],
)
def test_a_base_that_cannot_be_made(tmp_path: Path, said: str, sentence: str) -> None:
    with pytest.raises(ImageError) as refused:
        make_base(Recorder(tmp_path, 1, said), tmp_path, Machine(tmp_path, {}))
    assert sentence in str(refused.value)


def test_empty_leaves_the_folder_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "folder/inner").mkdir(parents=True)
    (tmp_path / "folder/link").symlink_to(tmp_path / "kept")
    empty(tmp_path / "folder")
    empty(tmp_path / "missing")
    assert [*(tmp_path / "folder").iterdir()] == []
    assert (tmp_path / "kept/file").exists()


@pytest.mark.parametrize(
    ("user", "there", "sentence"),
    [
        (0, {"debootstrap", "unshare", "chroot"}, ""),
        (0, {"unshare", "chroot"}, "debootstrap is missing: apt-get install debootstrap."),
        (1000, {"debootstrap"}, "only root can build the image"),
    ],
)
def test_lacks(user: int, there: set[str], sentence: str) -> None:
    said = lacks(user, lambda name: name if name in there else None)
    assert sentence in said
    assert bool(said) == bool(sentence)


def test_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slackwater.cli.install import IMAGE as NAME
    from slackwater.cli.install import MANAGER_IMAGE

    assert parse(["build"]).tag == NAME
    assert parse(["build", "--target", "manager"]).tag == MANAGER_IMAGE
    assert parse(["build", "--tag", "a:b"]).tag == "a:b"
    monkeypatch.setattr("tools.image.__main__.lacks", lambda *_: "no root here.")
    assert main(["check"]) == 1
    assert main(["build"]) == 1
    assert capsys.readouterr().err == "image: no root here.\n" * 2
    with pytest.raises(SystemExit) as wrong:
        main([])
    assert wrong.value.code == 2


def test_the_base_is_what_the_dockerfile_begins_with() -> None:
    from tools.image.dockerfile import read_stages
    from tools.provision import ROOT

    stages = read_stages((ROOT / "Dockerfile").read_text())
    assert {stage.base for stage in stages} == {base.IMAGE}
