"""A test run as its user sees it: which stages, what cannot run, the end and the exit code."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools import run_tests
from tools.children import Children
from tools.host_kernel import HostKernel, look_at_host, parse_mounts, v1_cpu_tree, v2_cpu_tree
from tools.results import Finished, NotRun, Run, Strictness, Verdict, total
from tools.run_tests import ROOT, Runner, conclude, last_sentence, pytest_command
from tools.stages import (
    FAST,
    KERNEL_V1,
    KERNEL_V2,
    KERNEL_V2_HOST,
    KUBELET_SYSTEMD,
    NODE,
    PYTHON,
    UNIT,
    VERSIONS,
    Group,
    Preparation,
    Stage,
    UnknownStageError,
    all_groups,
    obstacle,
    select,
)

V1 = HostKernel(is_root=True, v1_cpu="/sys/fs/cgroup/cpu", v2_cpu=None, writable=True)
V2 = HostKernel(is_root=True, v1_cpu=None, v2_cpu="/sys/fs/cgroup", writable=True)
BARE = HostKernel(is_root=True, v1_cpu=None, v2_cpu=None, writable=False)
FAST_NAMES = ["lint", "types", "layers", "unit"]
HOST_NAMES = [*FAST_NAMES, "kafka", "cluster", "browser", "node"]
VIRTUAL_NAMES = [
    "kernel v2",
    "kernel v2 systemd",
    "cpu sets v2",
    "cpu sets v2 systemd",
    "kubelet systemd",
    "kubelet cgroupfs",
]
ALL_NAMES = [*HOST_NAMES, "kernel v1", *VIRTUAL_NAMES]


def names(groups: tuple[Group, ...]) -> list[str]:
    return [stage.name for group in groups for stage in group]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (V1, ALL_NAMES),
        (V2, [*HOST_NAMES, "kernel v1", "kernel v2 host", *VIRTUAL_NAMES]),
        (BARE, ALL_NAMES),
    ],
)
def test_stages_in_order_on_each_kind_of_host(host: HostKernel, expected: list[str]) -> None:
    assert names(all_groups(host)) == expected


@pytest.mark.parametrize("host", [V1, V2])
def test_what_measures_on_this_machine_runs_alone(host: HostKernel) -> None:
    for group in all_groups(host):
        assert len(group) == 1 or not any(stage.uses_host_cgroups for stage in group)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], ALL_NAMES),
        (["unit", "lint"], ["lint", "unit"]),
        (["unit", "unit"], ["unit"]),
        (["kernel-v1"], ["kernel v1"]),
        (["kernel v2 systemd"], ["kernel v2 systemd"]),
    ],
)
def test_selection_keeps_the_order_of_the_stages(wanted: list[str], expected: list[str]) -> None:
    assert names(select(all_groups(V1), wanted)) == expected


def test_other_versions_of_kubernetes_run_only_where_they_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "kubernetes 1.30" not in names(all_groups(V1))
    assert names(select((*all_groups(V1), *VERSIONS), ["kubernetes-1.30"])) == ["kubernetes 1.30"]
    assert run_tests.main(["--list"]) == 0
    assert "\nkubernetes-1.30 " in capsys.readouterr().out


def test_tests_find_the_api_server_of_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    ((stage,),) = VERSIONS
    found = {name: Path("/kept", name) for name in (*stage.programs, "kube-apiserver-1.30")}
    monkeypatch.setattr(
        run_tests, "find_programs", lambda wanted, *_: {name: found[name] for name in wanted}
    )
    given = run_tests.programs_of(stage, Children(ROOT))
    _, env = pytest_command(stage, Path("/out"), {}, given)
    assert env["SLACKWATER_KUBE_APISERVER"] == "/kept/kube-apiserver-1.30"
    assert env["SLACKWATER_KUBECTL"] == "/kept/kubectl"
    assert env["SLACKWATER_TEST_KUBERNETES"] == "v1.30.14"
    assert all((ROOT / each).is_file() for each in stage.tests if each.startswith("tests/"))


def test_an_unknown_stage_is_answered_with_the_list() -> None:
    with pytest.raises(UnknownStageError, match="there is no stage nonsense; stages: lint, types"):
        select(FAST, ["lint", "nonsense"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stage", "nonsense"], "kernel-v2-systemd"),
        (["--fast", "--stage", "kernel-v2"], "stages: lint, types, layers, unit\n"),
    ],
)
def test_an_unknown_stage_is_wrong_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tests.main(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_list_names_each_stage_as_it_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["--list", "--fast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == FAST_NAMES
    assert lines[1] == "types   mypy"


@pytest.mark.parametrize(
    ("stage", "host", "expected"),
    [
        (KERNEL_V1, V1, ""),
        (KERNEL_V1, V2, "this host has no cgroup v1 cpu hierarchy"),
        (KERNEL_V1, BARE, "this host has no cgroup v1 cpu hierarchy"),
        (
            KERNEL_V1,
            HostKernel(False, "/c", None, False),
            "only root can make cgroups and namespaces",
        ),
        (KERNEL_V1, HostKernel(True, "/c", None, False), "/c is read-only"),
        (KERNEL_V2_HOST, V2, ""),
        (KERNEL_V2_HOST, HostKernel(True, None, "/c", False), "/c is read-only"),
        (KERNEL_V2, BARE, ""),
        (NODE, V1, ""),
        (NODE, BARE, "the cgroup tree is read-only"),
        (UNIT, HostKernel(False, None, None, False), ""),
    ],
)
def test_obstacle(stage: Stage, host: HostKernel, expected: str) -> None:
    assert obstacle(stage, host) == expected


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


def test_tests_in_a_machine_find_their_kernel_and_their_kubelet() -> None:
    kubelet = {"kubelet": Path("/kept/kubelet")}
    command, env = pytest_command(KUBELET_SYSTEMD, Path("/out"), {"CI": "true"}, kubelet)
    assert env == {}
    assert command[:4] == [PYTHON, "-m", "tools.vm", "run"]
    assert command[command.index("--env") + 1 : command.index("--")] == [
        "SLACKWATER_KUBELET=/kept/kubelet",
        "SLACKWATER_TEST_KERNEL=v2-systemd",
        "CI=true",
    ]
    assert command[command.index("--clock") + 1] == "host"
    assert " -m pytest tests/kubelet " in command[-1]
    assert command[-1].endswith(' --junitxml="$SLACKWATER_VM_OUT/junit.xml"')


def test_tests_on_this_machine_find_them_too() -> None:
    command, env = pytest_command(NODE, Path("/out"), {}, {"kubelet": Path("/kept/kubelet")})
    assert command[:4] == [PYTHON, "-m", "pytest", "tests/cluster"]
    assert command[-1] == "--junitxml=/out/junit.xml"
    assert env["SLACKWATER_KUBELET"] == "/kept/kubelet"
    assert pytest_command(KERNEL_V1, Path("/out"), {}, {})[1]["SLACKWATER_TEST_KERNEL"] == "v1"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", "it gave no reason"),
        ("x\nvm: QEMU is missing\n\n", "QEMU is missing"),
        ("oops: who", "oops: who"),
    ],
)
def test_the_last_sentence(said: str, expected: str) -> None:
    assert last_sentence(said) == expected


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


def check(name: str, script: str) -> Stage:
    return Stage(name, "a check", (python(script),))


def test_a_failing_check_shows_its_own_words_and_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = (
        (check("good", "print('not shown')"), check("bad", "exit('because')")),
        (KERNEL_V1,),
    )
    run = Runner(V2, Children(tmp_path), tmp_path).run(groups)
    assert [(one.stage, one.verdict) for one in run.finished] == [
        ("good", Verdict(1, 0)),
        ("bad", Verdict(0, 1)),
    ]
    assert run.left == (NotRun("kernel v1", "this host has no cgroup v1 cpu hierarchy"),)
    said = capsys.readouterr().out
    assert "not shown" not in said
    assert "because\nexit code 1\nbad: FAILED in " in said
    assert "kernel v1: not run: this host has no cgroup v1 cpu hierarchy\n" in said
    assert total(run, Strictness.LOCAL).exit_code == 1


def test_what_cannot_be_prepared_is_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine, fails = python("pass"), python("exit('vm: no network')")
    stages = (
        Stage("ready", "has it all", (fine,), needs=(Preparation("one", fine, fine),)),
        Stage("refused", "never runs", (fine,), needs=(Preparation("two", fails, fine),)),
        Stage("broken", "never runs", (fine,), needs=(Preparation("three", fine, fails),)),
    )
    run = Runner(V1, Children(tmp_path), tmp_path).run((stages,))
    assert [one.stage for one in run.finished] == ["ready"]
    assert run.left == (
        NotRun("refused", "no network"),
        NotRun("broken", "could not be prepared: no network"),
    )


def test_the_tests_of_a_stage_are_counted_from_their_report(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")
    (tmp_path / "test_inner.py").write_text("def test_it(): pass\ndef test_not(): assert 0\n")
    (tmp_path / "reports").mkdir()
    stages = (
        Stage("inner", "two tests", tests=("test_inner.py",)),
        Stage("empty", "no test", tests=("test_nothing.py",)),
    )
    run = Runner(V1, Children(tmp_path), tmp_path / "reports").run((stages,))
    counted = {one.stage: (one.verdict.passed, one.verdict.failed) for one in run.finished}
    assert counted == {"inner": (1, 1), "empty": (0, 1)}


INTERRUPTED_RUN = """
import sys
from tools import run_tests
from tools.stages import Stage
command = ("sh", "-c", "echo started > " + sys.argv[1] + "; sleep 3600 & wait")
run_tests.FAST = ((Stage("slow", "sleeps", (command,)),),)
sys.exit(run_tests.main(["--fast"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_130_without_a_traceback(
    number: signal.Signals, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_RUN, str(started)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        assert started.read_text() == "started\n"
        run.send_signal(number)
        # Its output ends when the last process that holds it has: none is left behind.
        said, _ = run.communicate()
    assert run.returncode == 130
    assert "Traceback" not in said
    assert said.endswith("stopped: nothing above counts as a result\n")


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
