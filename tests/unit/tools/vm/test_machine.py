"""What host and guest say to each other, and one machine's life, with a stand-in for QEMU."""

import io
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.vm import NO_RESULT, VmError
from tools.vm.machine import (
    Clock,
    Exchange,
    Init,
    Job,
    Machine,
    Scratch,
    command_script,
    parse_exit_code,
    run_job,
    scratch_for,
)


@given(st.integers(0, 255))
def test_every_exit_code_survives_the_way_home(code: int) -> None:
    assert parse_exit_code(f"{code}\n") == code


@pytest.mark.parametrize(
    "text", ["", "1", "\n", "256\n", "-1\n", "1\n2\n", "0x1\n", "1 \n", "one\n"]
)
def test_less_than_a_whole_exit_code_is_none(text: str) -> None:
    assert parse_exit_code(text) is None


def test_the_script_runs_the_very_words_in_a_clean_environment(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's name"
    folder.mkdir()
    words = ["sh", "-c", 'pwd; env | sort; printf "%s|" "$@"', "sh", "a b", "$HOME", "'", ""]
    script = command_script(words, folder, {"PATH": os.environ["PATH"], "X": "1 2"})
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == str(folder)
    assert {line.partition("=")[0] for line in lines[1:-1]} <= {"PATH", "X", "PWD", "SHLVL", "_"}
    assert "X=1 2" in lines
    assert lines[-1] == "a b|$HOME|'||"


def test_a_folder_that_the_guest_lacks_is_no_test_failure(tmp_path: Path) -> None:
    script = command_script(["true"], tmp_path / "nowhere", {})
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    assert done.returncode == NO_RESULT


@pytest.mark.parametrize(
    ("folder", "command", "expected"),
    [
        ("/home/ann", ["true"], Scratch.EMPTY),
        ("/tmpfiles", ["true"], Scratch.EMPTY),
        ("/tmp/checkout", ["true"], Scratch.OVERLAY),
        ("/home/ann", ["/tmp/venv/bin/python"], Scratch.OVERLAY),
    ],
)
def test_tmp_is_empty_unless_the_work_is_there(
    folder: str, command: list[str], expected: Scratch
) -> None:
    assert scratch_for(Path(folder), command) is expected


@pytest.mark.parametrize("folder", ["/run/user/0", "/proc", "/dev/shm/x", "/sys/fs"])
def test_a_folder_that_is_the_guests_own_is_refused(folder: str) -> None:
    with pytest.raises(VmError, match="not visible"):
        scratch_for(Path(folder), ["true"])


def machine(
    init: Init = Init.CGROUPFS, out: Path | None = None, clock: Clock = Clock.HOST
) -> Machine:
    image, initramfs = Path("/k/vmlinux.elf"), Path("/k/i.cpio")
    return Machine(image, initramfs, init, clock, "2G", Scratch.EMPTY, out)


def test_a_machine_goes_by_the_clock_that_it_is_given(tmp_path: Path) -> None:
    by_host, by_itself = machine(), machine(clock=Clock.INSTRUCTIONS)
    assert "-icount" not in by_host.qemu_arguments(Exchange(tmp_path))
    assert "-icount" in by_itself.qemu_arguments(Exchange(tmp_path))


def test_only_the_hosts_root_is_shared_read_only(tmp_path: Path) -> None:
    arguments = machine(out=Path("/re,sults")).qemu_arguments(Exchange(tmp_path))
    shares = [word for word in arguments if word.startswith("local,")]
    assert [word for word in shares if "readonly=on" in word] == shares[:1]
    assert "path=/,security" in shares[0]
    # A comma ends a value in QEMU's options unless it is doubled.
    assert "path=/re,,sults,security" in shares[2]


def run(limit_seconds: float = 3600, output: io.BytesIO | None = None) -> tuple[int, list[str]]:
    heard: list[str] = []
    job = Job(["true"], Path("/"), {}, limit_seconds)
    return run_job(machine(), job, heard.append, output or io.BytesIO()), heard


@pytest.mark.parametrize("code", [0, 1, 5, 125, 255])
def test_the_commands_exit_code_comes_home(emulate: Callable[[str], None], code: int) -> None:
    emulate(f"touch started; echo out >>output; echo err >>output; echo {code} >exit-code")
    output = io.BytesIO()
    assert run(output=output)[0] == code
    assert output.getvalue() == b"out\nerr\n"


def test_output_is_passed_on_while_the_command_runs(emulate: Callable[[str], None]) -> None:
    temporary = Path(tempfile.gettempdir())

    # The machine goes on only once its output has been seen outside.
    class Listener(io.BytesIO):
        def flush(self) -> None:
            (next(temporary.iterdir()) / "seen").touch()

    emulate(
        "touch started; echo early >>output; until [ -e seen ]; do sleep 0.02; done\n"
        "echo late >>output; echo 0 >exit-code"
    )
    listener = Listener()
    code, heard = run(output=listener)
    assert (code, listener.getvalue()) == (0, b"early\nlate\n")
    assert heard[0].startswith("vm: booted in ")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'Kernel panic' >console", "before it could start the command"),
        ("touch started; echo 'Kernel panic' >console", "before the command had an exit code"),
        ("touch started; echo 'Kernel panic' >console; : >exit-code", "had an exit code"),
        ("exit 1", "before it could start the command"),
    ],
)
def test_a_machine_that_dies_is_no_result(
    emulate: Callable[[str], None], script: str, sentence: str, tmp_path: Path
) -> None:
    emulate(script)
    with pytest.raises(VmError, match=sentence):
        run()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_machine_that_sleeps_for_ever_is_ended(
    emulate: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.vm.machine.ASLEEP_LIMIT_SECONDS", 0.5)
    emulate("touch started; exec sleep 60")
    with pytest.raises(VmError, match=r"did nothing for 0\.5 s"):
        run()


def test_a_hanging_machine_is_ended_at_its_limit(
    emulate: Callable[[str], None], tmp_path: Path
) -> None:
    emulate(f"touch started; echo $$ >{tmp_path}/pid; exec sleep 60")
    with pytest.raises(VmError, match=r"time limit of 0\.5 s"):
        run(limit_seconds=0.5)
    noted = tmp_path / "pid"
    assert not noted.exists() or not Path("/proc", noted.read_text().strip()).exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_machine_that_does_not_boot_is_not_waited_for(
    emulate: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.vm.machine.BOOT_LIMIT_SECONDS", 0.3)
    emulate("exec sleep 60")
    with pytest.raises(VmError, match="did not boot"):
        run()
