"""What a test must know of the machine that it runs on: whether its CPUs are emulated."""

import ctypes
import mmap
import os
import platform

#: tools.vm makes it; its CPUs are emulated one after the other by one of the host's.
IS_MACHINE = os.path.isdir("/run/slackwater-vm")

#: x86's `pause`, and a jump back to it.
_PAUSE_FOREVER = b"\xf3\x90\xeb\xfc"


def spin() -> None:
    """Busy for ever. An emulated CPU that pauses lets the next one run at once: for the guest's
    kernel it is as busy as any, and the test's own processes get the host's CPU all the same."""
    if IS_MACHINE and platform.machine() == "x86_64":
        _pause_for_ever()
    while True:
        pass


def _pause_for_ever() -> None:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_PAUSE_FOREVER)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(None)(address)()
