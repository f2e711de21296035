"""Work beside the stages: begun once, told between stages, and a reason where it fails."""

import sys
import time
from pathlib import Path

import pytest

from tools import preparations
from tools.children import Children
from tools.preparations import Preparations, last_sentence
from tools.stages import BROKER, FAST, MACHINES, ClusterSuite, Stage

pytestmark = pytest.mark.long

#: Stands in for `python -m tools.vm` and `python -m tools.kubernetes`: says and fails as told, and
#: does not end its work before a file called `go` is there.
TOOL = """
import pathlib, sys, time
name, action = sys.argv[1:3]
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
if action != "check":
    print(name + ": half of it", flush=True)
    while not (here / "go").exists():
        time.sleep(0.01)
    for kept in sys.argv[3:]:
        print("/kept/" + kept, flush=True)
refusal = here / f"{name}-{action}"
if refusal.exists():
    sys.exit(f"{name}: " + refusal.read_text())
"""
KERNEL = next(each for each in MACHINES if each.name == "kernel v2")
KUBELET = next(each for each in MACHINES if each.name == "kubelet cgroupfs")
PROGRAMS = ClusterSuite("cluster", "tests", ("tests/cluster",), ("etcd", "kube-apiserver"))


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tool.py").write_text(TOOL)
    (tmp_path / "go").touch()
    for name in ("vm", "kubernetes", "cluster"):
        command = (sys.executable, str(tmp_path / "tool.py"), name)
        monkeypatch.setattr(preparations, name.upper(), command)
    kafka = (sys.executable, str(tmp_path / "tool.py"), "kafka")
    work = preparations.Work("Kafka", (*kafka, "check"), (*kafka, "fetch"))
    monkeypatch.setattr(preparations, "BROKER", work)
    (tmp_path / "reports").mkdir()
    return tmp_path


def prepared(tool: Path, stages: tuple[Stage, ...] = (FAST[0], KERNEL, KUBELET)) -> Preparations:
    made = Preparations(Children(tool), stages, tool / "reports")
    made.begin()
    return made


def awaited(made: Preparations, *stages: Stage) -> None:
    deadline = time.monotonic() + 30
    while any(made.pending(stage) for stage in stages or (KERNEL, KUBELET, PROGRAMS)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_stages_with_the_same_needs_share_them(tool: Path) -> None:
    made = prepared(tool)
    awaited(made)
    assert sorted((tool / "calls").read_text().splitlines()) == [
        "kubernetes build kubelet",
        "kubernetes check kubelet",
        "vm check --init cgroupfs --kernel 6.12",
        "vm prepare --init cgroupfs --kernel 6.12",
    ]
    assert [made.reason(stage) for stage in (FAST[0], KERNEL, KUBELET)] == ["", "", ""]


def test_a_program_is_where_its_build_said_last(tool: Path) -> None:
    made = prepared(tool)
    awaited(made)
    assert made.programs(KUBELET) == {"kubelet": "/kept/kubelet"}
    assert made.programs(KERNEL) == made.programs(FAST[0]) == {}


def test_programs_of_a_cluster_are_built_in_one_go(tool: Path) -> None:
    made = prepared(tool, (FAST[0], PROGRAMS))
    awaited(made)
    assert (tool / "calls").read_text().splitlines() == [
        "cluster check etcd kube-apiserver",
        "kubernetes build etcd kube-apiserver",
    ]
    assert made.reason(PROGRAMS) == ""
    assert made.programs(PROGRAMS) == {
        "etcd": "/kept/etcd",
        "kube-apiserver": "/kept/kube-apiserver",
    }


def test_what_a_cluster_lacks_is_a_reason(tool: Path) -> None:
    (tool / "cluster-check").write_text("no containerd.")
    made = prepared(tool, (PROGRAMS,))
    awaited(made)
    assert made.reason(PROGRAMS) == "no containerd."


@pytest.mark.parametrize("action", ["check", "fetch"])
def test_a_broker_that_cannot_be_had_leaves_clusters_alone(tool: Path, action: str) -> None:
    (tool / f"kafka-{action}").write_text("no Maven.")
    made = prepared(tool, (BROKER, PROGRAMS))
    awaited(made, BROKER, PROGRAMS)
    assert made.reason(BROKER).endswith("no Maven.")
    assert made.reason(PROGRAMS) == ""
    assert made.programs(BROKER) == {}


@pytest.mark.parametrize(
    ("refusal", "reasons"),
    [
        ("vm-check", ("no QEMU.", "no QEMU.")),
        ("vm-prepare", ("could not be prepared: no QEMU.", "could not be prepared: no QEMU.")),
        ("kubernetes-check", ("", "no QEMU.")),
        ("kubernetes-build", ("", "could not be prepared: no QEMU.")),
    ],
)
def test_what_fails_is_a_reason_for_those_who_need_it(
    refusal: str, reasons: tuple[str, str], tool: Path
) -> None:
    (tool / refusal).write_text("no QEMU.")
    made = prepared(tool)
    awaited(made)
    assert (made.reason(KERNEL), made.reason(KUBELET)) == reasons
    assert made.reason(FAST[0]) == ""


def test_what_is_refused_is_not_begun(tool: Path) -> None:
    (tool / "kubernetes-check").write_text("no containerd.")
    awaited(prepared(tool))
    assert "build" not in (tool / "calls").read_text()


def test_news_are_told_once_and_only_while_it_goes_on(
    tool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tool / "go").unlink()
    made = prepared(tool)
    deadline = time.monotonic() + 30
    while sum(log.stat().st_size > 0 for log in (tool / "reports").iterdir()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made.tell_news()
    made.tell_news()
    assert capsys.readouterr().out == "meanwhile: half of it\n" * 2
    (tool / "go").touch()
    awaited(made)
    made.tell_news()
    assert "meanwhile" not in capsys.readouterr().out


def test_whoever_waits_sees_what_goes_on(tool: Path) -> None:
    (tool / "go").unlink()
    made = prepared(tool)
    work = made.pending(KERNEL)
    assert work is not None
    assert work.what == "Linux 6.12"
    deadline = time.monotonic() + 30
    while made.progress(work) != "half of it":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert made.pending(FAST[0]) is None
    (tool / "go").touch()
    awaited(made)
    assert made.pending(KERNEL) is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("fetching\nvm: There is no KVM.\n\n", "There is no KVM."),
        ("vm: one", "one"),
        ("kubernetes: containerd is missing.\n", "containerd is missing."),
        ("cluster: runc is missing.\n", "runc is missing."),
        (" \n", "it gave no reason"),
        ("", "it gave no reason"),
    ],
)
def test_last_sentence(said: str, expected: str) -> None:
    assert last_sentence(said) == expected
