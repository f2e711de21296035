"""One stage: how its commands look, what a crash of a virtual machine leads to."""

import sys
from pathlib import Path

import pytest

from tools import stage_runner
from tools.children import Children
from tools.stage_runner import StageRunner, VmPreparation, last_sentence, shown, vm_command
from tools.stages import KERNEL_V2_VM, PYTHON, KernelSuite, Suite, VmSuite
from tools.verdicts import Finished, Verdict

STAGE = KERNEL_V2_VM[1]
CRASHES = "did not finish: the virtual machine crashed"
# Stands in for `python -m tools.vm`: crashes as often as told, then leaves a report.
MACHINE = """
import pathlib, sys
action = sys.argv[1]
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
if action != "run":
    print("some progress", "vm: " + (here / action).read_text(), sep="\\n")
    sys.exit(int(bool((here / action).read_text())))
crashes = int((here / "crashes").read_text())
(here / "crashes").write_text(str(crashes - 1))
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if crashes > 0:
    (out / "junit.xml").write_text("<testsuite><testcase name='half'/>")
    sys.exit(125)
(out / "junit.xml").write_text("<testsuite><testcase name='whole'/></testsuite>")
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "machine.py").write_text(MACHINE)
    for action in ("check", "prepare"):
        (tmp_path / action).write_text("")
    monkeypatch.setattr(stage_runner, "VM", (sys.executable, str(tmp_path / "machine.py")))
    (tmp_path / "reports").mkdir()
    return tmp_path


def run_in(machine: Path, crashes: int) -> Finished:
    (machine / "crashes").write_text(str(crashes))
    return StageRunner(Children(machine), machine / "reports").run(STAGE)


@pytest.mark.parametrize(
    ("crashes", "verdict", "boots"),
    [(0, Verdict(1, 0), 1), (1, Verdict(1, 0), 2), (2, Verdict(0, 1, note=CRASHES), 2)],
)
def test_a_crashed_machine_gets_one_more_try(
    crashes: int,
    verdict: Verdict,
    boots: int,
    machine: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_in(machine, crashes).verdict == verdict
    assert len((machine / "calls").read_text().splitlines()) == boots
    said = capsys.readouterr().out
    assert said.count("the virtual machine crashed; trying once more") == boots - 1


def test_preparing_names_the_stages_own_kernel(machine: Path) -> None:
    preparation = VmPreparation(Children(machine), STAGE, machine / "reports")
    assert (preparation.begin(), preparation.finish()) == ("", "")
    assert (machine / "calls").read_text().splitlines() == [
        "check --init systemd --kernel 6.1",
        "prepare --init systemd --kernel 6.1",
    ]


def test_a_machine_that_cannot_run_here_is_not_prepared(machine: Path) -> None:
    (machine / "check").write_text("qemu-system-x86_64 is missing.")
    preparation = VmPreparation(Children(machine), STAGE, machine / "reports")
    assert preparation.begin() == "qemu-system-x86_64 is missing."
    assert preparation.finish() == ""
    assert len((machine / "calls").read_text().splitlines()) == 1


def test_a_kernel_that_cannot_be_fetched_is_a_reason(machine: Path) -> None:
    (machine / "prepare").write_text("no network.")
    preparation = VmPreparation(Children(machine), STAGE, machine / "reports")
    assert preparation.begin() == ""
    assert preparation.finish() == "could not be prepared: no network."


def test_the_command_for_a_machine() -> None:
    stage = VmSuite("kernel v2", "tests", "v2", "cgroupfs", "6.12")
    command = vm_command(stage, Path("/tmp/out"), {"CI": "true", "HOME": "/root"})
    assert command[:3] == [PYTHON, "-m", "tools.vm"]
    assert command[3:-3] == [
        *("run", "--init", "cgroupfs", "--kernel", "6.12", "--timeout", "1200"),
        *("--out", "/tmp/out"),
        *("--env", "SLACKWATER_TEST_KERNEL=v2", "CI=true", "--"),
    ]
    assert command[-3:-1] == ["sh", "-c"]
    assert command[-1].startswith("exec ")
    assert " -m pytest tests/kernel " in command[-1]
    assert command[-1].endswith(' --junitxml="$SLACKWATER_VM_OUT/junit.xml"')


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    """A project of its own, so that the inner pytest knows nothing of this one's settings."""
    (tmp_path / "tests/kernel").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")
    (tmp_path / "tests/kernel/test_inner.py").write_text(
        "import os\n"
        "def test_knows_its_kernel(): assert os.environ['SLACKWATER_TEST_KERNEL'] == 'v1'\n"
    )
    (tmp_path / "reports").mkdir()
    return tmp_path


def test_a_kernel_suite_tells_its_tests_which_kernel_it_is(inner: Path) -> None:
    runner = StageRunner(Children(inner), inner / "reports")
    assert runner.run(KernelSuite("kernel v1", "tests", "v1")).verdict == Verdict(1, 0)
    assert runner.run(KernelSuite("kernel v2 host", "tests", "v2")).verdict == Verdict(0, 1)


def test_a_suite_without_tests_is_a_failure(inner: Path) -> None:
    runner = StageRunner(Children(inner), inner / "reports")
    verdict = runner.run(Suite("unit", "tests", ("tests/nothing",))).verdict
    assert (verdict.passed, verdict.failed) == (0, 1)
    assert "exit code 4" in verdict.note


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("fetching\nvm: There is no KVM.\n\n", "There is no KVM."),
        ("vm: one", "one"),
        (" \n", "tools.vm gave no reason"),
        ("", "tools.vm gave no reason"),
    ],
)
def test_last_sentence(said: str, expected: str) -> None:
    assert last_sentence(said) == expected


def test_a_command_is_shown_as_it_can_be_typed() -> None:
    assert shown(["/a/b/.venv/bin/python", "-m", "ruff", "a file"]) == "python -m ruff 'a file'"
