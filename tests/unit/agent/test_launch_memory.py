"""Memory that is free is given back, where the C library can."""

import ctypes
import subprocess
import sys

import pytest

from slackwater.agent.launch import give_back_spare_memory

#: Freed blocks below one that is in use: glibc cannot shrink its heap by itself.
FREED = """
from slackwater.agent.launch import give_back_spare_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

blocks = [bytes(2_000) for _ in range(20_000)]
blocks = blocks[-1:]
before = resident()
give_back_spare_memory()
print(before - resident())
"""


def test_what_was_freed_goes_back() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library has no malloc_trim")
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 20_000  # KiB, of 39,000


def test_a_c_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def plain(name: object) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr(ctypes, "CDLL", plain)
    give_back_spare_memory()
    assert asked == [None]
