"""One stage on this machine: which tests it runs, and what counts as none."""

from pathlib import Path

import pytest

from tools.children import Children
from tools.stage_runner import StageRunner, fresh_folder, shown
from tools.stages import KernelSuite, Suite
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
    assert runner.run(KernelSuite("kernel v1", "tests", "v1")).verdict == Verdict(1, 0)
    assert runner.run(KernelSuite("kernel v2 host", "tests", "v2")).verdict == Verdict(0, 1)


def test_a_suite_without_tests_is_a_failure(inner: Path) -> None:
    runner = StageRunner(Children(inner), inner / "reports")
    verdict = runner.run(Suite("unit", "tests", ("tests/nothing",))).verdict
    assert (verdict.passed, verdict.failed) == (0, 1)
    assert "exit code 4" in verdict.note


def test_a_folder_for_reports_is_never_an_earlier_one(tmp_path: Path) -> None:
    (fresh_folder(tmp_path, "kernel v2") / "junit.xml").write_text("half")
    assert [*fresh_folder(tmp_path, "kernel v2").iterdir()] == []
    assert (tmp_path / "kernel-v2-crashed/junit.xml").read_text() == "half"


def test_a_command_is_shown_as_it_can_be_typed() -> None:
    assert shown(["/a/b/.venv/bin/python", "-m", "ruff", "a file"]) == "python -m ruff 'a file'"
