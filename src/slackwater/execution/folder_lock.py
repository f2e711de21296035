"""Locks on folders, so that two agents never share one; and whether a folder may be trusted.

Owns the lock file. A lock goes with the process, however that ends.
"""

import fcntl
import os
import stat
from contextlib import suppress

from slackwater.model.gap import Gap


class Taken(Gap, frozen=True):
    """Another process holds the lock."""


def locked(path: str) -> int | Gap:
    """flock goes with the process, however it ends; the pid inside is only for people."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
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


def lock_directory(path: str) -> int | Gap:
    """The lock of a cgroup directory: of two agents with folders of their own, one may work on it.
    Nothing can be written there, so that its holder has no name."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        return Gap(f"{path} cannot be opened: {error.strerror}")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return Taken(f"another agent works on {path}; one agent per node")
    except OSError as error:
        os.close(lock)
        return Gap(f"{path} cannot be locked: {error.strerror}")
    return lock


def untrusted_folder(path: str) -> Gap | None:
    """Why what stands in the folder may be anybody's; None where only its owner, us, writes
    there."""
    found = os.stat(path)
    if found.st_uid != os.geteuid():
        return Gap(f"the folder {path} belongs to user {found.st_uid}, and this is {os.geteuid()}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        return Gap(f"the folder {path} may be written by others (mode {mode:04o}); it must be 0755")
    return None
