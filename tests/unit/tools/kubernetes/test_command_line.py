"""python -m tools.kubernetes: paths on stdout, words on stderr, exit codes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.debian import missing
from tools.kubernetes import DEBIAN_PACKAGES, NODE_PROGRAMS
from tools.kubernetes.__main__ import READY_MADE, main
from tools.kubernetes.programs import KUBERNETES, PROGRAMS


@pytest.fixture
def our_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The command sets signal handlers; the test runner wants its own back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    monkeypatch.setenv("SLACKWATER_CACHE", str(cache))
    yield cache
    for number, handler in before.items():
        signal.signal(number, handler)


def test_build_prints_where_each_program_is(
    go: Path, our_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "kubelet", "kubectl"]) == 0
    said = capsys.readouterr()
    paths = [Path(line) for line in said.out.splitlines()]
    assert [path.name for path in paths] == ["kubelet", "kubectl"]
    assert all(path.is_relative_to(our_cache) and path.exists() for path in paths)
    assert f"kubernetes: building kubelet, kubectl {KUBERNETES.version}" in said.err


def test_a_failed_build_is_one(
    go: Path, our_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (go / "fails").touch()
    assert main(["build", "kubelet"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == "main.go:1: undefined: x"


@pytest.mark.parametrize(
    "arguments", [[], ["build"], ["build", "nonsense"], ["check"], ["nonsense"]]
)
def test_wrong_usage_is_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m tools.kubernetes")


def test_the_list_names_each_program_with_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{name} {module.version}" for name, module in PROGRAMS.items()
    ]


def test_check_is_one_where_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["check", "etcd", "kubectl"]) == 0
    assert main(["check", "etcd", "kubelet"]) == 1
    assert capsys.readouterr().err == (
        "kubernetes: containerd is missing: apt-get install containerd.\n"
    )
    for program in NODE_PROGRAMS:
        (tmp_path / program).touch(0o755)
    assert main(["check", "kubelet"]) == 0


def test_ready_made_programs_are_taken(
    go: Path,
    our_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/etcd").touch(0o755)
    monkeypatch.setenv(READY_MADE, str(tmp_path / "assets"))
    assert main(["build", "kubectl", "etcd"]) == 0
    kubectl, etcd = map(Path, capsys.readouterr().out.splitlines())
    assert etcd == tmp_path / "assets/etcd"
    assert kubectl.is_relative_to(our_cache)


def test_setup_installs_what_a_node_needs() -> None:
    assert missing(tuple(NODE_PROGRAMS.values()), DEBIAN_PACKAGES) == ()
