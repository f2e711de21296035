"""A test run: which stages, what stands in their way, what the end says and what it returns."""

import sys
from pathlib import Path

import pytest

from tools import run_tests
from tools.children import Children
from tools.host_kernel import HostKernel, look_at_host, parse_mounts, v1_cpu_tree, v2_cpu_tree
from tools.run_tests import Run, compile_sources, conclude, run_stages
from tools.stages import (
    CHECKS,
    CLUSTER,
    FAST,
    KERNEL_V1,
    KERNEL_V2_HOST,
    MACHINES,
    NODE,
    Check,
    Stage,
    Suite,
    UnknownStageError,
    all_stages,
    obstacle,
    select,
)
from tools.verdicts import Finished, NotRun, Verdict

V1 = HostKernel(is_root=True, v1_cpu="/sys/fs/cgroup/cpu", v2_cpu=None, writable=True)
V2 = HostKernel(is_root=True, v1_cpu=None, v2_cpu="/sys/fs/cgroup", writable=True)
BARE = HostKernel(is_root=True, v1_cpu=None, v2_cpu=None, writable=False)
FAST_NAMES = ["lint", "types", "layers", "unit"]
HOST_NAMES = [*FAST_NAMES, "kafka", "cluster", "node"]
VIRTUAL_NAMES = ["kernel v2", "kernel v2 systemd", "kubelet systemd", "kubelet cgroupfs"]


def names(stages: tuple[Stage, ...]) -> list[str]:
    return [stage.name for stage in stages]


def test_stages_in_order_on_each_kind_of_host() -> None:
    assert names(all_stages(V1)) == [*HOST_NAMES, "kernel v1", *VIRTUAL_NAMES]
    assert names(all_stages(V2)) == [
        *HOST_NAMES,
        "kernel v1",
        "kernel v2 host",
        *VIRTUAL_NAMES,
    ]
    assert names(all_stages(BARE)) == [*HOST_NAMES, "kernel v1", *VIRTUAL_NAMES]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], [*HOST_NAMES, "kernel v1", *VIRTUAL_NAMES]),
        (["unit", "lint"], ["lint", "unit"]),
        (["unit", "unit"], ["unit"]),
        (["kernel-v1"], ["kernel v1"]),
        (["kernel v2 systemd"], ["kernel v2 systemd"]),
    ],
)
def test_selection_keeps_the_order_of_the_stages(wanted: list[str], expected: list[str]) -> None:
    assert names(select(all_stages(V1), wanted)) == expected


def test_only_a_whole_run_has_the_long_ones() -> None:
    quick, whole = FAST[-1], all_stages(V1)[len(CHECKS)]
    assert isinstance(quick, Suite)
    assert isinstance(whole, Suite)
    assert quick.arguments[-2:] == ("-m", "not long")
    assert "-m" not in whole.arguments


def test_an_unknown_stage_is_answered_with_the_list() -> None:
    with pytest.raises(UnknownStageError, match="there is no stage nonsense; stages: lint, types"):
        select(FAST, ["lint", "nonsense"])


def test_an_unknown_stage_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["--stage", "nonsense"]) == 2
    assert "kernel-v2-systemd" in capsys.readouterr().err


def test_a_slow_stage_is_no_fast_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["--fast", "--stage", "kernel-v2"]) == 2
    assert "stages: lint, types, layers, unit\n" in capsys.readouterr().err


def test_an_unknown_option_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_tests.main(["--nonsense"])
    assert ended.value.code == 2
    assert "--nonsense" in capsys.readouterr().err


def test_the_list_names_each_stage_as_it_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["--list", "--fast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == FAST_NAMES
    assert lines[1] == "types   mypy"


@pytest.mark.parametrize(
    ("stage", "host", "unprepared", "expected"),
    [
        (KERNEL_V1, V1, "no QEMU", ""),
        (KERNEL_V1, V2, "", "this host has no cgroup v1 cpu hierarchy"),
        (KERNEL_V1, BARE, "", "this host has no cgroup v1 cpu hierarchy"),
        (KERNEL_V1, HostKernel(False, "/c", None, False), "", "only root can make cgroups"),
        (KERNEL_V1, HostKernel(True, "/c", None, False), "", "/c is read-only"),
        (KERNEL_V2_HOST, V2, "", ""),
        (KERNEL_V2_HOST, HostKernel(False, None, "/c", False), "", "only root can make cgroups"),
        (KERNEL_V2_HOST, HostKernel(True, None, "/c", False), "", "/c is read-only"),
        (MACHINES[0], BARE, "", ""),
        (MACHINES[0], V1, "no QEMU", "no QEMU"),
        (MACHINES[-1], V1, "", ""),
        (MACHINES[-1], V1, "no containerd", "no containerd"),
        (CLUSTER, HostKernel(False, None, None, False), "", ""),
        (CLUSTER, V1, "no network", "no network"),
        (NODE, V1, "", ""),
        (NODE, V2, "no containerd", "no containerd"),
        (
            NODE,
            HostKernel(False, "/c", None, True),
            "",
            "only root can make a node's namespaces and cgroups",
        ),
        (NODE, HostKernel(True, "/c", None, False), "", "/c is read-only"),
        (NODE, BARE, "", "the cgroup tree is read-only"),
        (FAST[0], BARE, "no QEMU", ""),
        (FAST[3], HostKernel(False, None, None, False), "", ""),
    ],
)
def test_obstacle(stage: Stage, host: HostKernel, unprepared: str, expected: str) -> None:
    assert obstacle(stage, host, unprepared) == expected


HYBRID = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup rw,relatime shared:9 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 master:3 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""  # noqa: E501 - a line of the kernel's


def test_a_v1_cpu_tree_is_found_by_its_controller_not_by_its_name() -> None:
    assert v1_cpu_tree(parse_mounts(HYBRID)) == "/sys/fs/cgroup/cpu,cpuacct"
    assert v1_cpu_tree(parse_mounts(HYBRID.replace("rw,cpu,cpuacct", "rw,cpuacct"))) is None


@pytest.mark.parametrize("text", ["", "garbage\n", "1 2 3 - cgroup\n", "\0\xff - \n"])
def test_a_mount_table_that_is_none_has_no_mounts(text: str) -> None:
    assert parse_mounts(text) == ()


@pytest.mark.parametrize(
    ("controllers", "found"), [("cpuset cpu io\n", True), ("cpuset io\n", False), (None, False)]
)
def test_a_v2_tree_without_the_cpu_controller_is_none(
    controllers: str | None, found: bool, tmp_path: Path
) -> None:
    if controllers is not None:
        (tmp_path / "cgroup.controllers").write_text(controllers)
    mounts = parse_mounts(f"33 30 0:29 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    assert v2_cpu_tree(mounts) == (str(tmp_path) if found else None)


def test_a_pure_v2_host_is_one_without_a_v1_cpu_tree(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    table = tmp_path / "mountinfo"
    table.write_text(f"33 30 0:29 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    assert look_at_host(table).is_pure_v2
    assert look_at_host(table).writable
    table.write_text(HYBRID + table.read_text())
    assert not look_at_host(table).is_pure_v2
    assert not look_at_host(tmp_path / "missing").is_pure_v2


def test_what_the_tests_import_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "installed"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for folder in ("src", "tools", "installed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").write_text("ANSWER = 42\n")
    (tmp_path / "src/broken.py").write_text("def\n")
    compile_sources(Children(tmp_path))
    assert len([*tmp_path.glob("*/__pycache__/module.*.pyc")]) == 3


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


def test_stages_run_in_order_and_a_failure_shows_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = (
        Check("good", "says little", (python("print('not shown')"),)),
        Check("bad", "fails twice", (python("print('why')"), python("exit('because')"))),
        KERNEL_V1,
    )
    run = run_stages(stages, V2, Children(tmp_path), tmp_path)
    assert [(one.stage, one.verdict) for one in run.finished] == [
        ("good", Verdict(1, 0)),
        ("bad", Verdict(0, 1)),
    ]
    assert run.left == (NotRun("kernel v1", "this host has no cgroup v1 cpu hierarchy"),)
    said = capsys.readouterr().out
    assert "not shown" not in said
    assert "why" not in said.splitlines()
    assert "because\nexit code 1\nbad: FAILED in " in said
    assert "kernel v1: not run: this host has no cgroup v1 cpu hierarchy\n" in said


#: Stands in for pytest here and in a machine: it leaves a report, after so many seconds.
TESTS = """
import pathlib, sys, time
out = next(pathlib.Path(w.partition("=")[2]) for w in sys.argv if w.startswith("--junitxml="))
time.sleep(float(sys.argv[1]))
out.write_text("<testsuite><testcase name='one'/></testsuite>")
"""
MACHINE = """
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
(out / "junit.xml").write_text("<testsuite><testcase name='one'/></testsuite>")
"""


@pytest.mark.long
def test_a_machine_that_needs_nothing_begins_beside_the_fast_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests.py").write_text(TESTS)
    (tmp_path / "machine.py").write_text(MACHINE)
    (tmp_path / "reports").mkdir()
    program = (sys.executable, str(tmp_path / "tests.py"))
    monkeypatch.setattr("tools.suite_commands.PYTEST", program)
    monkeypatch.setattr("tools.suite_commands.VM", (sys.executable, str(tmp_path / "machine.py")))
    monkeypatch.setattr("tools.preparations.works_for", lambda _: ())
    stages: tuple[Stage, ...] = (Suite("unit", "tests", ("2",)), MACHINES[0])
    run = run_stages(stages, V1, Children(tmp_path), tmp_path / "reports")
    assert [(one.stage, one.verdict) for one in run.finished] == [
        ("unit", Verdict(1, 0)),
        ("kernel v2", Verdict(1, 0)),
    ]
    said = capsys.readouterr().out
    assert said.index("meanwhile: kernel v2\n") < said.index("unit: passed")


PASSED = Finished("unit", Verdict(3, 0), 1.0)
FAILED = Finished("unit", Verdict(2, 1), 1.0)
LEFT = NotRun("kernel v1", "only root can make cgroups")


@pytest.mark.parametrize(
    ("run", "ci", "code", "last"),
    [
        (Run((PASSED,), ()), None, 0, "3 passed, 0 failed"),
        (Run((PASSED,), ()), "true", 0, "3 passed, 0 failed"),
        (Run((PASSED,), (LEFT,)), None, 0, "3 passed, 0 failed"),
        (Run((PASSED,), (LEFT,)), "false", 0, "3 passed, 0 failed"),
        (Run((PASSED,), (LEFT,)), "true", 1, "3 passed, 1 failed"),
        (Run((PASSED,), (LEFT,)), "1", 1, "3 passed, 1 failed"),
        (Run((FAILED,), ()), None, 1, "2 passed, 1 failed"),
        (Run((), (LEFT,)), None, 1, "0 passed, 0 failed"),
    ],
)
def test_the_end_of_a_run(
    run: Run,
    ci: str | None,
    code: int,
    last: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    (tmp_path / "reports").mkdir()
    assert conclude(run, tmp_path / "reports") == code
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert (tmp_path / "reports").exists() is (FAILED in run.finished)
