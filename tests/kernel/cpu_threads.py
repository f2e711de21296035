"""Which CPUs a process may use and which it is on, as the kernel says; and busy threads."""

import os
import threading

from slackwater.model.cgroup import CgroupController
from slackwater.model.cpus import CpuSet
from tests.kernel.bed import Bed, _enter
from tests.kernel.hand import until

EVERY = CpuSet.of(os.sched_getaffinity(0))


def allowed(pid: int) -> set[CpuSet]:
    """Of each thread."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status") as status:
            line = next(line for line in status if line.startswith("Cpus_allowed_list:"))
        found.add(CpuSet.parse(line.split()[1]))
    return found


def running_on(pid: int) -> set[int]:
    """The CPU of each thread: field 39 of proc(5)'s stat, counted from the end of the name."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as stat:
            found.add(int(stat.read().rpartition(")")[2].split()[36]))
    return found


def threads_in(bed: Bed, path: str, number: int) -> int:
    """A process of so many busy threads in this cgroup."""
    directories = sorted({bed.directory(path, c) for c in CgroupController})
    pid = os.fork()
    if pid:
        bed._pids.append(pid)
        until(lambda: len(os.listdir(f"/proc/{pid}/task")) == number)
        return pid
    try:
        _enter(directories)
        for _ in range(number - 1):
            threading.Thread(target=_burn, daemon=True).start()
        _burn()
    finally:
        os._exit(1)


def _burn() -> None:
    while True:
        pass
