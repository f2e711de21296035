"""The command line in this process: a process of its own for each test takes most of a test's time.

What a process alone can show (signals, closed streams, what is imported) starts one.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from tempfile import TemporaryFile
from unittest.mock import patch

from slackwater.cli.main import slackwater


def run_command(*arguments: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """With these environment variables and no others; an unexpected exception is the test's.

    The streams are files, as some commands write to their descriptors.
    """
    code: object = 0
    with (
        TemporaryFile("w+", encoding="utf-8") as out,
        TemporaryFile("w+", encoding="utf-8") as err,
        patch.dict(os.environ, environ, clear=True),
        _signal_handlers_put_back(),
    ):
        with redirect_stdout(out), redirect_stderr(err):
            try:
                slackwater(arguments, prog_name="slackwater")
            except SystemExit as ended:
                code = ended.code
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
        assert isinstance(code, int), code
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


@contextmanager
def _signal_handlers_put_back() -> Iterator[None]:
    """A program keeps its handlers until the process ends; here other tests follow."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
