"""Bytes of /proc's statistics into numbers: load, memory, disks, network interfaces, waiting tasks.

Pure: opens nothing, raises nothing. What stands there otherwise is a Gap that quotes it.
"""

import re

import msgspec

from slackwater.model.gap import Gap
from slackwater.model.units import Bytes
from slackwater.observation.kernel_text import garbage

#: 4096 disks of at most 256 bytes; as many interfaces.
LONGEST_TABLE = 1024 * 1024

# loadavg_proc_show in fs/proc/loadavg.c.
_LOADS = re.compile(rb"([0-9]{1,9}\.[0-9]{2}) ([0-9]{1,9}\.[0-9]{2}) ([0-9]{1,9}\.[0-9]{2}) ")
_MEMORY_LINE = rb"^%s:[ \t]+([0-9]{1,18}) kB$"
_TOTAL = re.compile(_MEMORY_LINE % b"MemTotal", re.MULTILINE)
_AVAILABLE = re.compile(_MEMORY_LINE % b"MemAvailable", re.MULTILINE)
# proc_pid_schedstat in fs/proc/base.c: run time, time spent waiting (both in ns), time slices.
_SCHEDULED = re.compile(rb"[0-9]{1,20} ([0-9]{1,20}) [0-9]{1,20}\n?")
_KIB = 1024
#: 2^64 - 1 has 20 digits; Python refuses numbers of thousands.
_LONGEST_NUMBER = 20
# diskstats_show in block/genhd.c: major, minor, name, then at least 11 numbers.
_DISK_WORDS = 14
# dev_seq_printf_stats in net/core/net-procfs.c: 8 numbers received, 8 sent, after two head lines.
_INTERFACE_NUMBERS = 16
_HEAD_LINES = 2


class NodeMemory(msgspec.Struct, frozen=True):
    """`available` is the kernel's estimate of what new work could have without swapping."""

    total: Bytes
    available: Bytes


class DiskCounters(msgspec.Struct, frozen=True, gc=False):
    """Since boot. A sector has 512 bytes, whatever the disk's own are."""

    reads: int
    sectors_read: int
    writes: int
    sectors_written: int
    busy_milliseconds: int


class InterfaceCounters(msgspec.Struct, frozen=True, gc=False):
    """Since the interface came up."""

    received_bytes: int
    received_packets: int
    received_drops: int
    sent_bytes: int
    sent_packets: int
    sent_drops: int


def loads(text: bytes) -> tuple[float, float, float] | Gap:
    """/proc/loadavg: of 1, 5 and 15 minutes."""
    match = _LOADS.match(text)
    if match is None:
        return garbage("/proc/loadavg", text)
    return float(match[1]), float(match[2]), float(match[3])


def node_memory(text: bytes) -> NodeMemory | Gap:
    """/proc/meminfo."""
    total, available = _TOTAL.search(text), _AVAILABLE.search(text)
    if total is None or available is None or not int(total[1]):
        return garbage("/proc/meminfo", text)
    return NodeMemory(Bytes(int(total[1]) * _KIB), Bytes(int(available[1]) * _KIB))


def disks(text: bytes) -> dict[str, DiskCounters] | Gap:
    """/proc/diskstats, by the device's name; partitions are devices too."""
    found: dict[str, DiskCounters] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < _DISK_WORDS or not _are_numbers(words[3:]):
            return garbage("/proc/diskstats", line)
        found[words[2].decode("ascii", "replace")] = DiskCounters(
            int(words[3]), int(words[5]), int(words[7]), int(words[9]), int(words[12])
        )
    return found


def interfaces(text: bytes) -> dict[str, InterfaceCounters] | Gap:
    """/proc/net/dev, by the interface's name."""
    found: dict[str, InterfaceCounters] = {}
    for line in text.splitlines()[_HEAD_LINES:]:
        name, _, rest = line.partition(b":")
        words = rest.split()
        if len(words) < _INTERFACE_NUMBERS or not _are_numbers(words):
            return garbage("/proc/net/dev", line)
        found[name.strip().decode("ascii", "replace")] = InterfaceCounters(
            *(int(words[place]) for place in (0, 1, 3, 8, 9, 11))
        )
    return found


def _are_numbers(words: list[bytes]) -> bool:
    return b"".join(words).isdigit() and len(max(words, key=len)) <= _LONGEST_NUMBER


def nanoseconds_waited(text: bytes) -> int | Gap:
    """/proc/TASK/schedstat: how long the task was ready to run and did not run, since it began."""
    match = _SCHEDULED.fullmatch(text)
    return garbage("schedstat", text) if match is None else int(match[1])
