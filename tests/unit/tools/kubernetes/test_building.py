"""Builds: pinned, kept by what they are made of, whole or not there at all."""

import re
import shutil
from pathlib import Path

import pytest

from tools.children import Children
from tools.kubernetes.building import build
from tools.kubernetes.programs import (
    ETCD,
    HELM,
    KUBERNETES,
    KWOK,
    MODULES,
    OLDEST_KUBERNETES,
    PROGRAMS,
    BuildError,
    Module,
    Toolchain,
    build_flags,
    key,
    variable_of,
)
from tools.provision import ROOT

GO = Toolchain(Path("/go"), "go version go1.26.8 linux/amd64")


def calls(go: Path, action: str) -> list[str]:
    return [line for line in (go / "calls").read_text().splitlines() if line.startswith(action)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_program_is_imported_by_its_module_and_no_other(module: Module) -> None:
    imported = re.findall(r'_ "([^"]+)"', (module.folder / "tools.go").read_text())
    assert sorted(imported) == sorted(package for _, package in module.programs)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_pins_what_it_builds(module: Module) -> None:
    text = (module.folder / "go.mod").read_text()
    required = re.findall(r"^require (\S+) (\S+)$", text, re.MULTILINE)
    [(source, version)] = required
    assert version == module.version
    assert all(package.startswith(source) for _, package in module.programs)
    assert f"{source} {version} h1:" in (module.folder / "go.sum").read_text()


def test_no_program_is_of_two_modules() -> None:
    names = [name for module in MODULES for name, _ in module.programs]
    assert sorted(names) == sorted(PROGRAMS)


@pytest.mark.parametrize(
    ("module", "parts"),
    [(KUBERNETES, 31), (OLDEST_KUBERNETES, 30)],
    ids=lambda each: getattr(each, "name", None),
)
def test_the_module_pins_all_parts_of_kubernetes(module: Module, parts: int) -> None:
    text = (module.folder / "go.mod").read_text()
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) == parts
    assert all(name == target for name, target, _ in replaced)
    assert {version for _, _, version in replaced} == {module.version.replace("v1.", "v0.")}


def test_the_docs_promise_the_versions_that_are_tested() -> None:
    """And the chart refuses what is older."""
    promise = re.search(
        r"Kubernetes (\d\.\d+) to (\d\.\d+)", (ROOT / "docs/install.md").read_text()
    )
    tested = (OLDEST_KUBERNETES, KUBERNETES)
    assert promise is not None
    assert promise.groups() == tuple(each.version[1:].rpartition(".")[0] for each in tested)
    chart = (ROOT / "charts/slackwater/Chart.yaml").read_text()
    assert f'kubeVersion: ">={promise[1]}.0-0"' in chart
    for each in tested:
        assert each.version.removeprefix("v") in (ROOT / "docs/install.md").read_text()


def built_versions(module: Module) -> dict[str, str]:
    """Of each module that it is made of: what replaces it, else what is required."""
    text = (module.folder / "go.mod").read_text()
    required = re.findall(r"^\t(\S+) (v\S+)", text, re.MULTILINE)
    replaced = re.findall(r"^\t(\S+) => \S+ (\S+)$", text, re.MULTILINE)
    return {**dict(required), **dict(replaced)}


@pytest.mark.parametrize("module", [ETCD, HELM, KWOK], ids=lambda module: module.name)
def test_what_is_common_with_kubernetes_is_of_its_version(module: Module) -> None:
    """Else Go compiles the same sources twice, which takes minutes."""
    kubernetes, own = built_versions(KUBERNETES), built_versions(module)
    common = kubernetes.keys() & own.keys()
    assert len(common) > 30
    assert {name: own[name] for name in common} == {name: kubernetes[name] for name in common}


@pytest.mark.parametrize(
    ("module", "stamp"),
    [
        (KUBERNETES, "k8s.io/component-base/version.gitVersion=v1.34.4"),
        (KUBERNETES, "k8s.io/component-base/version.gitMajor=1"),
        (KUBERNETES, "k8s.io/component-base/version.gitMinor=34"),
        (OLDEST_KUBERNETES, "k8s.io/component-base/version.gitVersion=v1.30.14"),
        (HELM, "helm.sh/helm/v3/internal/version.version=v3.19.0"),
        (HELM, "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34"),
        (KWOK, "sigs.k8s.io/kwok/pkg/consts.Version=v0.6.1"),
    ],
)
def test_programs_know_their_version(module: Module, stamp: str) -> None:
    assert f" -X {stamp}" in build_flags(module)[-1]


def test_the_key_is_of_the_sources_and_the_toolchain(tmp_path: Path) -> None:
    folder = tmp_path / "module"
    shutil.copytree(KUBERNETES.folder, folder)
    first = key(GO, KUBERNETES, folder)
    assert first == key(GO, KUBERNETES)
    assert first != key(Toolchain(Path("/go"), "go version go1.26.9 linux/amd64"), KUBERNETES)
    assert first == key(Toolchain(Path("/elsewhere/go"), GO.version), KUBERNETES)
    for name in ("go.mod", "go.sum", "tools.go"):
        before = key(GO, KUBERNETES, folder)
        with (folder / name).open("a") as file:
            file.write("// changed\n")
        assert key(GO, KUBERNETES, folder) != before


def test_each_module_is_built_by_itself_and_named_as_we_call_it(go: Path, cache: Path) -> None:
    names = ["kubectl", "etcd", "kubelet", "helm", "kwok"]
    paths = build(Children(cache.parent), names, cache)
    assert [path.name for path in paths] == names
    assert {path.read_text() for path in paths} == {"compiled\n"}
    built = calls(go, "build")
    assert [Path(call.split()[2]).name for call in built] == ["etcd", "kubernetes", "helm", "kwok"]
    assert len({path.parent for path in paths}) == 4


def test_the_same_program_of_two_versions_is_kept_apart(go: Path, cache: Path) -> None:
    names = ["kube-apiserver", "kube-apiserver-1.30"]
    paths = build(Children(cache.parent), names, cache)
    assert [path.name for path in paths] == names
    assert {path.read_text() for path in paths} == {"compiled\n"}
    folders = [path.parent.name.partition("-")[0] for path in paths]
    assert folders == ["v1.34.4", "v1.30.14"]
    assert variable_of(names[1]) == "SLACKWATER_KUBE_APISERVER_1_30"


def test_a_ready_made_program_needs_no_go(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/etcd").touch()
    made = build(Children(cache.parent), ["etcd"], cache, tmp_path / "made")
    assert made == [tmp_path / "made/etcd"]
    assert not cache.exists()


def test_a_program_is_built_once(go: Path, cache: Path) -> None:
    children = Children(cache.parent)
    [kubelet] = build(children, ["kubelet"], cache)
    assert kubelet.read_text() == "compiled\n"
    assert kubelet.is_relative_to(cache / "kubernetes")
    assert build(children, ["kubelet"], cache) == [kubelet]
    assert len(calls(go, "build")) == 1


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
