"""One stage on this machine: which tests it runs, and what counts as none."""

import sys
from pathlib import Path

import pytest

from tools.children import Children
from tools.stage_runner import StageRunner, fresh_folder, shown
from tools.stages import BrokerSuite, Check, ClusterSuite, KernelSuite, Suite
from tools.verdicts import Verdict

pytestmark = pytest.mark.long


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
    assert runner.run(KernelSuite("kernel v1", "tests", "v1"), {}).verdict == Verdict(1, 0)
    assert runner.run(KernelSuite("kernel v2 host", "tests", "v2"), {}).verdict == Verdict(0, 1)


def test_a_cluster_suite_tells_its_tests_where_the_programs_are(inner: Path) -> None:
    (inner / "tests/test_cluster.py").write_text(
        "import os\n"
        "def test_knows(): assert os.environ['SLACKWATER_KUBE_APISERVER'] == '/kept/server'\n"
    )
    runner = StageRunner(Children(inner), inner / "reports")
    stage = ClusterSuite("cluster", "tests", ("tests/test_cluster.py",), ("kube-apiserver",))
    programs = {"kube-apiserver": "/kept/server"}
    assert runner.run(stage, programs).verdict == Verdict(1, 0)
    assert runner.run(stage, {"kube-apiserver": "/elsewhere"}).verdict == Verdict(0, 1)


def test_a_broker_suite_is_its_tests(inner: Path) -> None:
    (inner / "tests/test_broker.py").write_text("def test_it(): pass\ndef test_not(): assert 0\n")
    runner = StageRunner(Children(inner), inner / "reports")
    stage = BrokerSuite("kafka", "tests", ("tests/test_broker.py",))
    assert runner.run(stage, {}).verdict == Verdict(1, 1)


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


#: Ends only when the other has begun.
MEETS = """
import pathlib, sys, time
me, other = (pathlib.Path(name) for name in {names})
me.touch()
while not other.exists():
    time.sleep(0.01)
sys.exit({code})
"""


def test_checks_that_have_begun_run_at_once_and_are_told_in_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    first = Check("first", "meets", (python(MEETS.format(names=(here, there), code=0)),))
    second = Check("second", "meets", (python(MEETS.format(names=(there, here), code="'why'")),))
    third = Check("third", "is nowhere", (("/no/such/program",),))
    runner = StageRunner(Children(tmp_path), tmp_path)
    runner.begin((first, second, third))
    assert [runner.run(each, {}).verdict for each in (first, second, third)] == [
        Verdict(1, 0),
        Verdict(0, 1),
        Verdict(0, 1),
    ]
    said = capsys.readouterr().out
    assert said.index("first: passed") < said.index("why\nexit code 1\nsecond: FAILED")
    assert "/no/such/program: No such file or directory\nexit code 127\nthird: FAILED" in said


def test_something_else_goes_on_while_tests_run(inner: Path) -> None:
    runner = StageRunner(Children(inner), inner / "reports")
    calls: list[int] = []
    stage = KernelSuite("kernel v1", "tests", "v1")
    runner.run(stage, {}, lambda: calls.append(1))
    assert calls


def test_a_suite_without_tests_is_a_failure(inner: Path) -> None:
    runner = StageRunner(Children(inner), inner / "reports")
    verdict = runner.run(Suite("unit", "tests", ("tests/nothing",)), {}).verdict
    assert (verdict.passed, verdict.failed) == (0, 1)
    assert "exit code 4" in verdict.note


def test_a_folder_for_reports_is_never_an_earlier_one(tmp_path: Path) -> None:
    (fresh_folder(tmp_path, "kernel v2") / "junit.xml").write_text("half")
    assert [*fresh_folder(tmp_path, "kernel v2").iterdir()] == []
    assert (tmp_path / "kernel-v2-crashed/junit.xml").read_text() == "half"


def test_a_command_is_shown_as_it_can_be_typed() -> None:
    assert shown(["/a/b/.venv/bin/python", "-m", "ruff", "a file"]) == "python -m ruff 'a file'"
