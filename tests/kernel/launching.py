"""Starts `slackwater` as a process of its own, as a user's shell does.

On this machine that is a fresh interpreter. In a virtual machine its start alone would take an
emulated CPU many seconds, dozens of times, so there the process is forked from this one, which has
imported everything: a real process with its own arguments, streams, signals and end. `launch_fresh`
is the ordinary way everywhere.
"""

import faulthandler
import importlib
import io
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from typing import IO, NoReturn

from tests.kernel.machine import IS_MACHINE

Output = int | IO[bytes]

#: What the commands import when they need it.
_MACHINERY = (
    "encodings.idna",
    "rich.console",
    "rich.table",
    "slackwater.agent.endpoint_server",
    "slackwater.agent.endpoint_client",
    "slackwater.agent.endpoint_server",
    "slackwater.agent.launch",
    "slackwater.agent.launch",
    "slackwater.cli.explain",
    "slackwater.cli.main",
    "slackwater.cli.top",
    "slackwater.doctor.checkup",
    "yaml",
)
_IGNORED_BY_PYTHON = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
_FIRST_OF_OTHERS = 3
_MOST_DESCRIPTORS = 1 << 16
#: Python's own for a stream that cannot be flushed at the end.
_UNWRITTEN = 120


def launch(
    *arguments: str, stdout: Output = subprocess.PIPE, stderr: Output = subprocess.PIPE
) -> subprocess.Popen[str]:
    """`slackwater ARGUMENTS`, by the quickest way that is real here."""
    return (fork if IS_MACHINE else launch_fresh)(*arguments, stdout=stdout, stderr=stderr)


def launch_fresh(
    *arguments: str, stdout: Output = subprocess.PIPE, stderr: Output = subprocess.PIPE
) -> subprocess.Popen[str]:
    """The same with an interpreter of its own."""
    return subprocess.Popen(_command(arguments), stdout=stdout, stderr=stderr, text=True)


def run(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """To its end."""
    with launch(*arguments) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def import_machinery() -> None:
    """All that a forked process would import for itself, each time again."""
    for name in _MACHINERY:
        importlib.import_module(name)


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "slackwater", *arguments]


def fork(
    *arguments: str, stdout: Output = subprocess.PIPE, stderr: Output = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Popen sets the streams up; instead of executing the command the child becomes it."""
    return subprocess.Popen(
        _command(arguments),
        stdout=stdout,
        stderr=stderr,
        text=True,
        preexec_fn=lambda: _become(arguments),  # noqa: PLW1509 - that it never returns is the point
    )


def _become(arguments: tuple[str, ...]) -> NoReturn:
    code = 1
    try:
        # Popen's own pipe among them: its end tells the parent that the start is over.
        os.closerange(_FIRST_OF_OTHERS, _MOST_DESCRIPTORS)
        _forget_pytest()
        sys.argv[1:] = arguments
        code = _run_to_its_end()
    finally:
        os._exit(code)


def _run_to_its_end() -> int:
    """As an interpreter does it: threads are awaited, and what was said is written."""
    try:
        runpy.run_module("slackwater", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = _exit_code(end.code)
    except BaseException:  # noqa: BLE001 - a traceback and 1 is what it would come to
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return _UNWRITTEN
    return code


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _forget_pytest() -> None:
    """Its streams, hooks, handlers and warnings are not a user's."""
    faulthandler.disable()
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    warnings.resetwarnings()
    for category in _IGNORED_BY_PYTHON:
        warnings.simplefilter("ignore", category)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the process's whole life
    sys.stdout = _text_stream(1, "strict")
    sys.stderr = _text_stream(2, "backslashreplace")


def _text_stream(descriptor: int, errors: str) -> io.TextIOWrapper:
    raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, errors=errors, write_through=descriptor == 2)
