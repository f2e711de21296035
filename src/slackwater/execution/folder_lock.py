"""A lock on a folder, so that two agents never share it.

Owns the lock file. It goes with the process, however that ends.
"""

import fcntl
import os
from contextlib import suppress

from slackwater.model.gap import Gap


class Taken(Gap, frozen=True):
    """Another process holds the lock."""


def locked(path: str) -> int | Gap:
    """flock goes with the process, however it ends; the pid inside is only for people."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        who = f"process {holder}" if holder.isdigit() else "another process"
        return Taken(f"{who} holds the ledger in {os.path.dirname(path)}; one agent per node")
    except OSError:
        os.close(lock)
        raise
    with suppress(OSError):  # a full disk: the lock holds without its pid
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    return lock
