"""A process that was forked is as one with an interpreter of its own: what it says, how it ends."""

import subprocess
from pathlib import Path

import pytest

from tests.kernel.launching import fork, import_machinery, launch_fresh

pytestmark = pytest.mark.cgroupfs


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("version",),
        pytest.param(("agent", "--nonsense"), marks=pytest.mark.native),
        pytest.param(("release", "--state", "/nowhere/at/all"), marks=pytest.mark.native),
        pytest.param(("explain", "--agent", "/nowhere/agent.sock"), marks=pytest.mark.native),
        pytest.param(("completion", "bash"), marks=pytest.mark.native),
    ],
)
def test_a_forked_process_ends_as_a_fresh_one(arguments: tuple[str, ...]) -> None:
    import_machinery()
    assert end_of(fork(*arguments)) == end_of(launch_fresh(*arguments))


def test_its_output_goes_where_it_is_told(tmp_path: Path) -> None:
    import_machinery()
    with (tmp_path / "output").open("wb") as output:
        code, piped, _ = end_of(fork("version", stdout=output))
    assert (code, bool(piped)) == (0, False)
    assert (tmp_path / "output").read_text().strip() == end_of(fork("version"))[1].strip()
