"""The docker-archive: what goes in comes out, and what containers start with."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from tools.image.archive import (
    configuration,
    extract_layer,
    read_configuration,
    write_archive,
    write_layer,
)
from tools.image.dockerfile import BASE_PATH, Recipe

RECIPE = Recipe(
    environment={"PATH": BASE_PATH, "A": "b"},
    labels={"title": "x"},
    user="1:2",
    entry=("program",),
    command=("--help",),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "bin").mkdir(parents=True)
    (made / "bin/program").write_text("words")
    (made / "bin/program").chmod(0o4755)
    os.link(made / "bin/program", made / "bin/same")
    (made / "bin/link").symlink_to("program")
    (made / "bin/dangling").symlink_to("/nowhere")
    (made / "empty").mkdir(mode=0o700)
    (made / "grüße").write_text("x" * 200)
    return made


def test_a_root_comes_back_as_it_was(root: Path, tmp_path: Path) -> None:
    write_archive(root, RECIPE, "name:1", tmp_path / "image.tar")
    extract_layer(tmp_path / "image.tar", tmp_path / "again")
    again = tmp_path / "again"
    assert (again / "bin/program").read_text() == "words"
    assert (again / "bin/program").stat().st_mode & 0o7777 == 0o4755
    assert (again / "bin/same").samefile(again / "bin/program")
    assert os.readlink(again / "bin/link") == "program"
    assert os.readlink(again / "bin/dangling") == "/nowhere"
    assert (again / "empty").stat().st_mode & 0o777 == 0o700
    assert (again / "grüße").read_text() == "x" * 200
    before, after = (
        sorted(str(p.relative_to(top)) for p in top.rglob("*")) for top in (root, again)
    )
    assert before == after


def test_the_manifest_names_what_is_there(root: Path, tmp_path: Path) -> None:
    write_archive(root, RECIPE, "name:1", tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {name: _read(archive, name) for name in archive.getnames()}
    [image] = json.loads(files["manifest.json"])
    assert image["RepoTags"] == ["name:1"]
    assert image["Config"] == f"{hashlib.sha256(files[image['Config']]).hexdigest()}.json"
    told = json.loads(files[image["Config"]])
    [layer] = image["Layers"]
    assert told["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(files[layer]).hexdigest()}"]
    assert [*tmp_path.glob("*.layer")] == []


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_the_same_root_is_the_same_archive(root: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_archive(root, RECIPE, "name:1", tmp_path / f"{name}.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_no_names_of_this_machines_users(root: Path, tmp_path: Path) -> None:
    write_layer(root, tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert {(each.uname, each.gname) for each in layer.getmembers()} == {("", "")}


def test_sockets_and_devices_stay_behind(root: Path, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "s"))
        write_layer(root, tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert "s" not in layer.getnames()
        assert "bin/program" in layer.getnames()


def test_configuration() -> None:
    said = configuration(RECIPE, "abc")
    assert said["os"] == "linux"
    assert said["config"] == {
        "Env": [f"PATH={BASE_PATH}", "A=b"],
        "Entrypoint": ["program"],
        "Cmd": ["--help"],
        "WorkingDir": "/",
        "User": "1:2",
        "Labels": {"title": "x"},
    }
    assert "User" not in str(configuration(Recipe(), "abc")["config"])


def test_what_was_written_is_read(root: Path, tmp_path: Path) -> None:
    write_archive(root, RECIPE, "name:1", tmp_path / "image.tar")
    said = read_configuration(tmp_path / "image.tar")
    assert said["tags"] == ["name:1"]
    assert said["created"] == "1970-01-01T00:00:00Z"
