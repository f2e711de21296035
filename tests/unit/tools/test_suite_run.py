"""One stage's tests: which they are, what they are told, and what counts as none."""

import time
from pathlib import Path

import pytest

from tools.children import Children
from tools.stages import BrokerSuite, ClusterSuite, KernelSuite, Suite, TestStage
from tools.suite_run import SuiteRun, fresh_folder
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


def verdict(inner: Path, stage: TestStage, programs: dict[str, str] | None = None) -> Verdict:
    children = Children(inner)
    run = SuiteRun(stage, inner / "reports")
    run.begin(children, programs or {})
    deadline = time.monotonic() + 60
    while run.verdict is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        run.look(children)
    assert not run.is_running
    return run.verdict


def test_a_kernel_suite_tells_its_tests_which_kernel_it_is(inner: Path) -> None:
    assert verdict(inner, KernelSuite("kernel v1", "tests", "v1")) == Verdict(1, 0)
    assert verdict(inner, KernelSuite("kernel v2 host", "tests", "v2")) == Verdict(0, 1)


def test_a_cluster_suite_tells_its_tests_where_the_programs_are(inner: Path) -> None:
    (inner / "tests/test_cluster.py").write_text(
        "import os\n"
        "def test_knows(): assert os.environ['SLACKWATER_KUBE_APISERVER'] == '/kept/server'\n"
    )
    stage = ClusterSuite("cluster", "tests", ("tests/test_cluster.py",), ("kube-apiserver",))
    assert verdict(inner, stage, {"kube-apiserver": "/kept/server"}) == Verdict(1, 0)
    assert verdict(inner, stage, {"kube-apiserver": "/elsewhere"}) == Verdict(0, 1)


def test_a_broker_suite_is_its_tests(inner: Path) -> None:
    (inner / "tests/test_broker.py").write_text("def test_it(): pass\ndef test_not(): assert 0\n")
    assert verdict(inner, BrokerSuite("kafka", "tests", ("tests/test_broker.py",))) == Verdict(1, 1)


def test_a_suite_without_tests_is_a_failure(inner: Path) -> None:
    found = verdict(inner, Suite("unit", "tests", ("tests/nothing",)))
    assert (found.passed, found.failed) == (0, 1)
    assert "exit code 4" in found.note


def test_what_is_shown_is_shown_once(inner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = SuiteRun(Suite("unit", "tests", ("tests/kernel",)), inner / "reports")
    run.show()
    assert capsys.readouterr().out == ""
    (inner / "reports/unit.log").write_text("half\n")
    run.show()
    (inner / "reports/unit.log").write_text("half\nwhole\n")
    run.show()
    assert capsys.readouterr().out == "half\nwhole\n"


def test_a_folder_for_reports_is_never_an_earlier_one(tmp_path: Path) -> None:
    (fresh_folder(tmp_path, "kernel v2") / "junit.xml").write_text("half")
    assert [*fresh_folder(tmp_path, "kernel v2").iterdir()] == []
    assert (tmp_path / "kernel-v2-crashed/junit.xml").read_text() == "half"
