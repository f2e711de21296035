"""A process that notes a tier's quota, and the CPU used around it, in a file.

Owns that process and the file. It looks often, costs little, and judges nothing.
"""

import contextlib
import itertools
import os
import signal
import struct
import time
from collections.abc import Iterator

from benchmarks._running import quota_file, quota_in
from benchmarks._series import NOT_LOOKED_AT, UNLIMITED, Sample
from slackwater.model.cgroup import CgroupController, CgroupVersion
from tests.kernel.bed import Bed

SAMPLE_EVERY = 0.005
#: Usage is not looked at in every sample.
USAGE_EVERY = 10
_RECORD = struct.Struct("4q")


class Sampler:
    """Guards the process that notes quota and usage, in a file."""

    def __init__(self, bed: Bed, path: str, file: str, whole: str = "") -> None:
        """`whole` is the group whose usage counts as everything, the root by default."""
        self._file = file
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _note(quota_file(bed, path), usage_files(bed, path, whole), file)
            finally:
                os._exit(1)

    def samples(self) -> list[Sample]:
        with open(self._file, "rb") as file:
            data = file.read()
        whole = len(data) - len(data) % _RECORD.size
        return [Sample(*record) for record in _RECORD.iter_unpack(data[:whole])]

    def end(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _note(quota_path: str, usage_paths: tuple[str, str], file: str) -> None:
    """Ahead of the busy loops: a late sample would look like a late agent."""
    with contextlib.suppress(OSError):
        os.nice(-20)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    limit, everything, tier = (os.open(name, os.O_RDONLY) for name in (quota_path, *usage_paths))
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in itertools.count():
        start = time.monotonic_ns()
        found = quota_in(os.pread(limit, 64, 0).decode())
        used = (NOT_LOOKED_AT, NOT_LOOKED_AT)
        if number % USAGE_EVERY == 0:
            used = (usage_in(os.pread(everything, 512, 0)), usage_in(os.pread(tier, 512, 0)))
        record = _RECORD.pack(start // 1000, UNLIMITED if found is None else found, *used)
        os.write(out, record)
        # In an emulated machine a sample is slow: the sampler stays below a tenth of a CPU.
        took = (time.monotonic_ns() - start) / 1e9
        time.sleep(max(SAMPLE_EVERY - took, 10 * took))


def usage_files(bed: Bed, path: str, whole: str = "") -> tuple[str, str]:
    """Of everything that the agent counts, and of the tier. v2 has no exact account of the whole
    machine: there it is our tree, in which everything runs."""
    if bed.version is CgroupVersion.V2:
        everything = bed.directory(whole or bed.top)
        return f"{everything}/cpu.stat", f"{bed.directory(path)}/cpu.stat"
    folders = (bed.directory(each, CgroupController.CPUACCT) for each in (whole, path))
    everything, tier = (f"{folder}/cpuacct.usage" for folder in folders)
    return everything, tier


def usage_in(text: bytes) -> int:
    words = text.split()
    return int(words[1]) if words[0] == b"usage_usec" else int(words[0]) // 1000


@contextlib.contextmanager
def sampling(bed: Bed, path: str, file: str, whole: str = "") -> Iterator[Sampler]:
    sampler = Sampler(bed, path, file, whole)
    try:
        yield sampler
    finally:
        sampler.end()
