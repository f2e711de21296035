"""Texts of /proc: recorded ones, those of this machine, and any other."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.model.units import Bytes
from slackwater.observation.metrics.proc_text import (
    DiskCounters,
    InterfaceCounters,
    NodeMemory,
    disks,
    interfaces,
    loads,
    nanoseconds_waited,
    node_memory,
)

MEMINFO = b"""MemTotal:       16393216 kB
MemFree:          512000 kB
MemAvailable:    8196608 kB
Buffers:          100000 kB
SwapTotal:             0 kB
"""
# Linux 4.18 and later have discards and flushes after the first eleven numbers; 4.17 has not.
DISKSTATS = b"""   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 1000 20 64000 900 500 10 32000 700 0 1500 1600 1 0 8 0 9 10
 259       1 nvme0n1p1 900 20 60000 800 500 10 32000 700 0 1400 1500 1 0 8 0
"""
NET_DEV = b"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0
  eth0:125000 1000 1 7 0 0 0 0 250000 2000 0 9 0 0 0 0
"""  # noqa: E501  the kernel's own line


def test_recorded_texts() -> None:
    assert loads(b"5.00 4.26 3.06 3/134 13379\n") == (5.0, 4.26, 3.06)
    assert node_memory(MEMINFO) == NodeMemory(Bytes(16393216 * 1024), Bytes(8196608 * 1024))
    assert disks(DISKSTATS) == {
        "loop0": DiskCounters(0, 0, 0, 0, 0),
        "nvme0n1": DiskCounters(1000, 64000, 500, 32000, 1500),
        "nvme0n1p1": DiskCounters(900, 60000, 500, 32000, 1400),
    }
    assert interfaces(NET_DEV) == {
        "lo": InterfaceCounters(100, 1, 0, 100, 1, 0),
        "eth0": InterfaceCounters(125000, 1000, 7, 250000, 2000, 9),
    }
    assert nanoseconds_waited(b"97575 2852073 2\n") == 2852073


@pytest.mark.parametrize(
    ("file", "parse"),
    [
        ("/proc/loadavg", loads),
        ("/proc/meminfo", node_memory),
        ("/proc/diskstats", disks),
        ("/proc/1/net/dev", interfaces),
        ("/proc/self/schedstat", nanoseconds_waited),
    ],
)
def test_this_machines_own(file: str, parse: Callable[[bytes], object]) -> None:
    assert not isinstance(parse(Path(file).read_bytes()), Gap)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (loads, b""),
        (loads, b"nan nan nan 1/2 3\n"),
        (node_memory, b"MemTotal: 100 kB\n"),  # before Linux 3.14
        (node_memory, b"MemTotal: 0 kB\nMemAvailable: 0 kB\n"),
        (disks, b"259 0 nvme0n1 1 2 3\n"),
        (disks, b"259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 x\n"),
        (disks, b"259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11".replace(b"11", b"1" * 5000)),
        (interfaces, b"head\nhead\n eth0: 1 2 3\n"),
        (interfaces, b"head\nhead\n eth0:" + b" 1" * 15 + b" " + b"1" * 5000),
        (nanoseconds_waited, b"1 -2 3"),
        (nanoseconds_waited, b""),
    ],
)
def test_anything_else_is_a_gap_that_quotes_it(
    parse: Callable[[bytes], object], text: bytes
) -> None:
    found = parse(text)
    assert isinstance(found, Gap)
    assert "makes no sense there" in found.reason


@given(st.binary(max_size=200))
def test_no_text_raises(text: bytes) -> None:
    for parse in (loads, node_memory, disks, interfaces, nanoseconds_waited):
        parse(text)
