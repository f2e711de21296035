"""The command line of tools.vm, and what it asks of the host."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.vm import DEBIAN_PACKAGES, NO_RESULT
from tools.vm.__main__ import main
from tools.vm.kernel import Kernel

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[4]


def test_a_host_without_qemu_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path))
    sentence = "vm: qemu-system-x86_64 is missing: apt-get install qemu-system-x86.\n"
    assert main(["check"]) == 1
    assert capsys.readouterr().err == sentence
    assert main(["run", "--", "true"]) == NO_RESULT
    assert capsys.readouterr().err == sentence


def test_every_program_that_is_named_has_its_package_listed() -> None:
    assert {"qemu-system-x86", "busybox-static", "kmod", "zstd", "systemd"} == {*DEBIAN_PACKAGES}


@pytest.fixture
def command_line(
    tmp_path: Path, emulate: Callable[[str], None], busybox: Path, small_kernel: Kernel
) -> Callable[[], subprocess.Popen[str]]:
    """Starts `python -m tools.vm run -- true` as a process, with the stand-in for QEMU."""
    (tmp_path / "vm").mkdir()
    (tmp_path / "kernels").rename(tmp_path / "vm" / "kernels")
    path = f"{tmp_path}:{busybox.parent}:/usr/bin:/bin"
    temporary = str(tmp_path / "temporary")
    environment = {"PATH": path, "SLACKWATER_CACHE": str(tmp_path), "TMPDIR": temporary}
    return lambda: subprocess.Popen(
        [sys.executable, "-m", "tools.vm", "run", "--", "true"],
        cwd=REPOSITORY,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_stdout_is_the_commands_alone(
    command_line: Callable[[], subprocess.Popen[str]], emulate: Callable[[str], None]
) -> None:
    emulate("touch started; echo hello >>output; echo 3 >exit-code")
    with command_line() as process:
        output, words = process.communicate()
    assert (process.returncode, output) == (3, "hello\n")
    assert "vm: starting Linux 6.12.1-test with cgroupfs\n" in words


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_machine_outlives_its_caller(
    command_line: Callable[[], subprocess.Popen[str]],
    emulate: Callable[[str], None],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    emulate(f"echo $$ >{tmp_path}/pid; touch started; echo up >>output; exec sleep 3600")
    with command_line() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        process.communicate()
    machine_process = Path("/proc", (tmp_path / "pid").read_text().strip())
    while machine_process.exists():
        time.sleep(0.02)
    if number is signal.SIGTERM:
        assert process.returncode == 128 + number
        assert list((tmp_path / "temporary").iterdir()) == []
