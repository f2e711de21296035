"""Setup: who may go on, what is looked for where, and what counts as already there."""

import ast
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import provision, setup
from tools.children import Children

NEEDS_OLD_SYNTAX = ("tools/__init__.py", "tools/setup.py")


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 9, 2), (3, 10, 13)])
def test_an_old_python_gets_one_sentence_with_a_way_out(version: tuple[int, ...]) -> None:
    complaint = setup.complaint_about_python(version, "/opt/old/python3")
    assert "\n" not in complaint
    assert "needs Python 3.11 or newer" in complaint
    assert f"/opt/old/python3 is {'.'.join(map(str, version))}" in complaint
    assert "make test PYTHON=python3.11" in complaint


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 13, 1), (4, 0, 0)])
def test_a_python_that_will_do_gets_no_sentence(version: tuple[int, ...]) -> None:
    assert setup.complaint_about_python(version, "python3") == ""


@pytest.mark.parametrize("name", NEEDS_OLD_SYNTAX)
def test_an_old_python_can_read_what_it_is_given(name: str) -> None:
    source = (provision.ROOT / name).read_text()
    assert ast.parse(source, feature_version=(3, 6)).body


@pytest.mark.parametrize("name", NEEDS_OLD_SYNTAX)
def test_an_old_python_meets_no_newer_module_before_the_answer(name: str) -> None:
    """Imports at the top run before the check; only the interpreter's own may be there."""
    top = ast.parse((provision.ROOT / name).read_text()).body
    imported = [alias.name for node in top if isinstance(node, ast.Import) for alias in node.names]
    assert set(imported) <= {"sys"}
    assert not [node for node in top if isinstance(node, ast.ImportFrom)]


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["test", "demo"]])
def test_wrong_usage_is_two_and_names_the_profiles(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "tools.setup", *arguments]
    ended = subprocess.run(command, cwd=provision.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "usage: python3 -m tools.setup check|cluster|demo|test\n"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLACKWATER_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"SLACKWATER_CACHE": "", "XDG_CACHE_HOME": "/b"}, "/b/slackwater"),
        ({"XDG_CACHE_HOME": ""}, "/home/somebody/.cache/slackwater"),
        ({"SLACKWATER_CACHE": "~/kept"}, "/home/somebody/kept"),
    ],
)
def test_cache_folder(
    environ: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert provision.cache_folder(environ) == Path(expected)


def test_a_cache_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(provision.SetupError, match=r"cannot be written \(Not a directory\); name"),
        provision.alone(tmp_path / "file"),
    ):
        pytest.fail("a file is no cache folder")


def test_setup_is_alone_and_lets_go(tmp_path: Path) -> None:
    with (
        provision.alone(tmp_path),
        (tmp_path / "tools/setup.lock").open("w") as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "tools/setup.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not other.closed


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("uv 0.13.7 (abc123 2026-10-01)\n", True),
        ("uv 0.14.0\n", True),
        ("uv 1.0.0", True),
        ("uv 0.13.6\n", False),
        ("uv 0.9.30\n", False),
        ("uv-something 9.9.9\n", False),
        ("", False),
    ],
)
def test_uv_is_new_enough(said: str, expected: bool) -> None:
    assert provision.uv_is_new_enough(said) is expected


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_old_uv_on_the_path_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin/uv", "echo uv 0.1.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    fetched: list[Path] = []
    monkeypatch.setattr(provision, "fetch_uv", lambda _children, kept: fetched.append(kept))
    kept = provision.provide_uv(Children(tmp_path), tmp_path / "cache")
    assert fetched == [kept] == [tmp_path / "cache/tools" / provision.UV_NAME]


def test_a_fetch_falls_to_the_next_way_and_leaves_only_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def makes_it(_children: Children, scratch: Path, wanted: str) -> Path:
        assert wanted == "uv==0.13.7"
        return program(scratch / "bin/uv", "exit 0")

    monkeypatch.setattr(provision, "fetch_by_venv", lambda *_: None)
    monkeypatch.setattr(provision, "fetch_by_target", makes_it)
    provision.fetch_uv(Children(tmp_path), tmp_path / "kept")
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
    assert os.access(tmp_path / "kept", os.X_OK)


def test_a_fetch_that_fails_every_way_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in ("fetch_by_venv", "fetch_by_target", "fetch_by_debian_venv"):
        monkeypatch.setattr(provision, way, lambda *_: None)
    with pytest.raises(provision.SetupError, match="Debian: python3-venv") as raised:
        provision.fetch_uv(Children(tmp_path), tmp_path / "kept")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environ", "certificate", "expected"),
    [
        ({}, "a.pem", {"UV_SYSTEM_CERTS": "true"}),
        ({"UV_SYSTEM_CERTS": "false"}, "a.pem", {}),
        ({}, None, {}),
    ],
)
def test_the_machines_certificates_are_trusted_where_it_has_any(
    environ: dict[str, str],
    certificate: str | None,
    expected: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    if certificate is not None:
        (tmp_path / certificate).touch()
    assert provision.trusted_certificates(environ) == expected


def test_packages_are_named_once_and_the_cluster_wants_no_emulator() -> None:
    everything, cluster = map(provision.packages_for, ("test", "cluster"))
    assert len(set(everything)) == len(everything)
    assert set(cluster) < set(everything)
    assert "containernetworking-plugins" in cluster
    assert "qemu-system-x86" not in cluster
    assert set(provision.NEEDING_PACKAGES) < set(setup.PROFILES)


def activate(venv: Path, says: Path) -> None:
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/activate").write_text(f"VIRTUAL_ENV='{says}'\nexport VIRTUAL_ENV\n")


def test_a_copied_virtual_environment_is_noticed(tmp_path: Path) -> None:
    activate(tmp_path / "here/.venv", tmp_path / "here/.venv")
    activate(tmp_path / "copy/.venv", tmp_path / "here/.venv")
    assert not provision.was_made_elsewhere(tmp_path / "here/.venv")
    assert provision.was_made_elsewhere(tmp_path / "copy/.venv")
    assert not provision.was_made_elsewhere(tmp_path / "nowhere/.venv")
