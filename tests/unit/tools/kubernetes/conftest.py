"""A Go that compiles nothing, first on PATH, and a cache of its own."""

from pathlib import Path

import pytest

#: Two packages to compile; each program is its package's last word. Told to fail, it says why.
GO = """#!/bin/sh
here=$(dirname "$0")
echo "$@" >>"$here/calls"
case $1 in
version) cat "$here/version" ;;
list) echo stale; echo; echo stale ;;
build)
    if [ -e "$here/fails" ]; then echo "main.go:1: undefined: x"; exit 1; fi
    for last; do
        case $last in */) out=$last ;; esac
        case $last in
        go.etcd.io/etcd/server/v3) echo "$last"; echo compiled >"$out/server" ;;
        *.io/*/*/* | helm.sh/*) echo "$last"; echo compiled >"$out/${last##*/}" ;;
        esac
    done
    echo k8s.io/other ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the stand-in: its `version`, its `calls`, and whether it `fails`."""
    folder = tmp_path / "go"
    folder.mkdir()
    (folder / "go").write_text(GO)
    (folder / "go").chmod(0o755)
    (folder / "version").write_text("go version go1.26.8 linux/amd64\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
