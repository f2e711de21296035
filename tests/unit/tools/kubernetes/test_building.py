"""Builds: pinned, kept by what they are made of, whole or not there at all."""

import re
import shutil
import threading
import time
from pathlib import Path

import pytest

from tools.children import Children
from tools.console import ProgressLine
from tools.kubernetes.building import Progress, build
from tools.kubernetes.failure import BuildError
from tools.kubernetes.programs import MODULE, PROGRAMS, VERSION, build_flags, key
from tools.kubernetes.toolchain import Toolchain
from tools.vm.cache import sole_builder

GO = Toolchain(Path("/go"), "go version go1.26.8 linux/amd64")


def calls(go: Path, action: str) -> list[str]:
    return [line for line in (go / "calls").read_text().splitlines() if line.startswith(action)]


def test_every_program_is_imported_by_the_module_and_no_other() -> None:
    imported = re.findall(r'_ "([^"]+)"', (MODULE / "tools.go").read_text())
    assert sorted(imported) == sorted(PROGRAMS.values())


def test_the_module_pins_kubernetes_and_all_its_parts() -> None:
    text = (MODULE / "go.mod").read_text()
    assert f"require k8s.io/kubernetes {VERSION}\n" in text
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) == 31
    assert all(name == target for name, target, _ in replaced)
    assert {version for _, _, version in replaced} == {VERSION.replace("v1.", "v0.")}
    sums = (MODULE / "go.sum").read_text()
    assert f"k8s.io/kubernetes {VERSION} h1:" in sums


def test_programs_know_their_version() -> None:
    stamped = build_flags()[-1]
    for fact in (f"gitVersion={VERSION}", "gitMajor=1", "gitMinor=34"):
        assert f" -X k8s.io/component-base/version.{fact}" in stamped


def test_the_key_is_of_the_sources_and_the_toolchain(tmp_path: Path) -> None:
    module = tmp_path / "module"
    shutil.copytree(MODULE, module)
    first = key(GO, module)
    assert first == key(GO, MODULE)
    assert first != key(Toolchain(Path("/go"), "go version go1.26.9 linux/amd64"), module)
    assert first == key(Toolchain(Path("/elsewhere/go"), GO.version), module)
    for name in ("go.mod", "go.sum", "tools.go"):
        before = key(GO, module)
        with (module / name).open("a") as file:
            file.write("// changed\n")
        assert key(GO, module) != before


def test_a_program_is_built_once(go: Path, cache: Path) -> None:
    children = Children(cache.parent)
    [kubelet] = build(children, ["kubelet"], cache)
    assert kubelet.read_text() == "compiled\n"
    assert kubelet.is_relative_to(cache / "kubernetes")
    assert build(children, ["kubelet"], cache) == [kubelet]
    assert len(calls(go, "build")) == 1


def test_only_what_is_missing_is_built(go: Path, cache: Path) -> None:
    children = Children(cache.parent)
    [kubelet] = build(children, ["kubelet"], cache)
    both = build(children, ["kubectl", "kubelet"], cache)
    assert both == [kubelet.with_name("kubectl"), kubelet]
    assert calls(go, "build")[1].endswith(" k8s.io/kubernetes/cmd/kubectl")


def test_another_go_is_another_build(go: Path, cache: Path) -> None:
    children = Children(cache.parent)
    first = build(children, ["kubelet"], cache)
    (go / "version").write_text("go version go1.26.9 linux/amd64\n")
    second = build(children, ["kubelet"], cache)
    assert first != second
    assert len(calls(go, "build")) == 2


def test_a_build_that_fails_leaves_nothing_and_says_why(go: Path, cache: Path) -> None:
    (go / "fails").touch()
    with pytest.raises(BuildError, match=r"go build failed:\nmain\.go:1: undefined: x"):
        build(Children(cache.parent), ["kubelet"], cache)
    assert [path.name for path in (cache / "kubernetes").iterdir()] == ["lock"]


def test_two_builders_build_once(go: Path, cache: Path) -> None:
    found: list[Path] = []
    other = threading.Thread(
        target=lambda: found.extend(build(Children(cache.parent), ["kubelet"], cache))
    )
    with sole_builder(cache / "kubernetes"):
        other.start()
        time.sleep(0.2)
        assert found == []
    other.join()
    assert build(Children(cache.parent), ["kubelet"], cache) == found
    assert len(calls(go, "build")) == 1


def test_progress_counts_packages_and_never_passes_the_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressLine("building") as line:
        progress = Progress(line, 4)
        for row in ("k8s.io/a\n", "# k8s.io/a: a warning\n", "\n", *["k8s.io/b\n"] * 5):
            progress.hear(row)
    assert capsys.readouterr().out.splitlines() == [
        "building",
        "building: 20 % compiled",
        "building: 50 % compiled",
        "building: 70 % compiled",
        "building: 100 % compiled",
    ]


def test_progress_of_nothing_is_no_division_by_zero(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine("building") as line:
        Progress(line, 0).hear("k8s.io/a\n")
    assert capsys.readouterr().out.endswith("100 % compiled\n")
