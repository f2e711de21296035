"""What a run proved: counts from real pytest reports, and every doubt against the code."""

import subprocess
import sys

import pytest

from tools.results import (
    Finished,
    NotRun,
    Run,
    Skip,
    Strictness,
    Total,
    Verdict,
    count,
    judge,
    summary,
    table,
    total,
)

TESTS = """
import pytest

pytestmark = pytest.mark.long

@pytest.fixture
def broken():
    raise OSError("no such luck")

def test_passes(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_passes_twice(n): pass
def test_fails(): assert 1 == 2
def test_errors(broken): pass
def test_skips(): pytest.skip("no <kernel> & no time")
@pytest.mark.skip
def test_is_marked(): pass
@pytest.mark.xfail(reason="known")
def test_is_expected_to_fail(): assert False
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """A real report: pytest's own idea of the format, not ours."""
    folder = tmp_path_factory.mktemp("inner")
    (folder / "test_inner.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["--rootdir", str(folder), "--junitxml", str(folder / "junit.xml"), str(folder)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = folder / "junit.xml"
    assert report.is_file(), ended.stdout + ended.stderr
    return ended.returncode, report.read_text()


def test_a_real_report_is_counted(reported: tuple[int, str]) -> None:
    verdict = count(reported[1])
    assert (verdict.passed, verdict.failed) == (3, 2)
    assert verdict.skips == (
        Skip("test_inner::test_skips", "no <kernel> & no time"),
        Skip("test_inner::test_is_marked", "unconditional skip"),
        Skip("test_inner::test_is_expected_to_fail", "known"),
    )
    assert judge(*reported) == verdict


def report(*cases: str) -> str:
    return f'<testsuites><testsuite name="pytest">{"".join(cases)}</testsuite></testsuites>'


PASSES = '<testcase classname="tests.a" name="test_a"/>'
FAILS = '<testcase classname="tests.a" name="test_b"><failure message="no">no</failure></testcase>'
SKIPS = '<testcase classname="tests.a" name="test_c"><skipped message="not here"/></testcase>'
SILENT = '<testcase classname="tests.a" name="test_d"><skipped/></testcase>'
SKIP = Skip("tests.a::test_c", "not here")


@pytest.mark.parametrize(
    ("exit_code", "text", "expected"),
    [
        (0, report(PASSES, PASSES), Verdict(2, 0)),
        (1, report(PASSES, FAILS), Verdict(1, 1)),
        (0, report(PASSES, FAILS), Verdict(1, 1)),
        (0, report(PASSES, SKIPS), Verdict(1, 0, (SKIP,))),
        (
            0,
            report(PASSES, SILENT),
            Verdict(1, 0, (Skip("tests.a::test_d", "no reason given"),)),
        ),
        (5, report(), Verdict(0, 1, note="no test ran, exit code 5")),
        (0, report(SKIPS), Verdict(0, 1, (SKIP,), "no test ran, exit code 0")),
        (3, report(PASSES), Verdict(1, 1, note="exit code 3, though no test failed")),
        (4, None, Verdict(0, 1, note="did not finish: no report, exit code 4")),
        (0, None, Verdict(0, 1, note="did not finish: no report, exit code 0")),
        (137, report(PASSES)[:60], Verdict(0, 1, note="did not finish: no report, exit code 137")),
        (125, None, Verdict(0, 1, note="did not finish: the virtual machine crashed")),
        (125, report(PASSES), Verdict(0, 1, note="did not finish: the virtual machine crashed")),
    ],
)
def test_judge(exit_code: int, text: str | None, expected: Verdict) -> None:
    assert judge(exit_code, text) == expected


FINISHED = (
    Finished("lint", Verdict(1, 0), 0.21),
    Finished("kernel v2 systemd", Verdict(118, 2, (SKIP,), "odd"), 83.0),
)
LEFT = (NotRun("kernel v1", "only root can make cgroups"),)


@pytest.mark.parametrize(
    ("strict", "left", "expected"),
    [
        (Strictness.LOCAL, (), Total(119, 2)),
        (Strictness.LOCAL, LEFT, Total(119, 2)),
        (Strictness.CI, (), Total(119, 3)),
        (Strictness.CI, LEFT, Total(119, 4)),
    ],
)
def test_what_was_left_out_counts_against_a_ci_and_never_as_passed(
    strict: Strictness, left: tuple[NotRun, ...], expected: Total
) -> None:
    assert total(Run(FINISHED, left), strict) == expected


@pytest.mark.parametrize(
    ("outcome", "code"), [(Total(3, 0), 0), (Total(3, 1), 1), (Total(0, 1), 1), (Total(0, 0), 1)]
)
def test_exit_code(outcome: Total, code: int) -> None:
    assert outcome.exit_code == code


def test_the_table_lines_up() -> None:
    assert table(FINISHED) == [
        "stage              passed  failed        time",
        "lint                    1       0       0.2 s",
        "kernel v2 systemd     118       2  1 min 23 s",
    ]


def test_the_summary_of_a_person() -> None:
    lines = summary(Run(FINISHED, LEFT), Strictness.LOCAL)
    assert lines[:4] == ["", *table(FINISHED)]
    assert lines[4:] == [
        "failed: kernel v2 systemd: odd",
        "skipped: kernel v2 systemd: tests.a::test_c: not here",
        "not run: kernel v1: only root can make cgroups",
        "119 passed, 2 failed",
    ]


def test_the_summary_of_a_ci_says_why_it_is_stricter() -> None:
    lines = summary(Run(FINISHED, LEFT), Strictness.CI)
    assert lines[5:] == [
        "skipped: kernel v2 systemd: tests.a::test_c: not here (a failure, because CI is set)",
        "not run: kernel v1: only root can make cgroups (a failure, because CI is set)",
        "119 passed, 4 failed",
    ]
