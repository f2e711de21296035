"""Files of cgroups as bytes: descriptors kept for what is read each tick, others on demand.

Owns every descriptor of a cgroup's file. Refuses to read a stranger: each opening checks that
the directory is still the cgroup that was asked for. Texts come out as bytes or as a Gap.
"""

import contextlib
import errno
import os
import resource

from slackwater.model.cgroup import CgroupController, CgroupMounts
from slackwater.model.gap import VANISHED, Gap

#: kernfs hands out a page at a time.
_PAGE = 4096
#: Nearly every file that we keep open is smaller; a buffer of this size comes from CPython's own
#: pool.
_SMALL = 448
_LONGEST_FILE = 64 * 1024
#: Descriptors that we leave to the rest of the process: sockets, the ledger, listings.
_RESERVE = 64
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
#: What the kernel says of a cgroup that was removed: ENODEV to an open descriptor
#: (kernfs_seq_start in fs/kernfs/file.c), ENOENT to a path.
_GONE = frozenset({errno.ENODEV, errno.ENOENT})
#: How the reason of a missing file ends.
NOT_HERE = "does not exist here"


def raise_descriptor_limit() -> int:
    """Lets this process open as many files as it may ever; gives that number.

    Called once by a program, before the first tree is made.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


class GroupFolders:
    """The way into a cgroup's directories, by path, checked by id."""

    def __init__(self, mounts: CgroupMounts) -> None:
        self._mounts = mounts
        home = mounts.identity()
        # Without a hierarchy of its own an id is nowhere: nothing lives in a relative path.
        self._home = "" if isinstance(home, Gap) else home.directory

    def home(self, path: str) -> str:
        """The directory whose inode number is the cgroup's id."""
        return f"{self._home}/{path}"

    def living(self, path: str, identity: int) -> bool:
        """Whether this very cgroup still stands at its path."""
        try:
            return os.stat(self.home(path)).st_ino == identity
        except OSError:
            return False

    def open(self, controller: CgroupController, path: str, identity: int) -> int | Gap:
        """A descriptor of the directory in this controller's hierarchy. OSError is passed on.

        On v1 a cgroup has a directory in each hierarchy, of which one carries its id. Another
        one belongs to it if the one with the id still stands after the other was opened.
        """
        folder = self._mounts.directory(controller, path)
        if isinstance(folder, Gap):
            return folder
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if folder == self.home(path):
            same = os.fstat(fd).st_ino == identity
        else:
            same = self.living(path, identity)
        if same:
            return fd
        os.close(fd)
        return VANISHED

    def texts(
        self, controller: CgroupController, path: str, identity: int, names: tuple[str, ...]
    ) -> tuple[bytes | Gap, ...]:
        """Several files of one cgroup, opened, read and closed."""
        try:
            folder = self.open(controller, path, identity)
        except OSError as error:
            folder = self.refusal(path, path, identity, error)
        if isinstance(folder, Gap):
            return (folder,) * len(names)
        try:
            return tuple(self._text(folder, name, path, identity) for name in names)
        finally:
            os.close(folder)

    def _text(self, folder: int, name: str, path: str, identity: int) -> bytes | Gap:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            return self.refusal(name, path, identity, error)
        try:
            return whole(fd)
        except OSError as error:
            return self.refusal(name, path, identity, error)
        finally:
            os.close(fd)

    def refusal(self, name: str, path: str, identity: int, error: OSError) -> Gap:
        """What an error means: the group is gone, the file is not there, or the kernel's words."""
        if error.errno not in _GONE:
            return Gap(f"{name}: {error.strerror}")
        return Gap(f"{name} {NOT_HERE}") if self.living(path, identity) else VANISHED


def whole(fd: int) -> bytes:
    """The file from its start up to a bound, a page at a time."""
    text = page = os.pread(fd, _PAGE, 0)
    while len(page) == _PAGE and len(text) < _LONGEST_FILE:
        page = os.pread(fd, _PAGE, len(text))
        text += page
    return text


class HeldFiles:
    """Descriptors of files that are read each tick, by file name and cgroup id.

    A kept descriptor costs one pread for a reading, opening anew costs six calls; but it takes
    4.7 KiB of kernel memory, so nothing is kept that is not read each tick. When descriptors
    run out, what cannot be kept is opened, read and closed.
    """

    def __init__(
        self, folders: GroupFolders, files: dict[str, CgroupController], usual: int = _SMALL
    ) -> None:
        """`usual`: the files are smaller, mostly; a larger one is read again from its start."""
        self._folders = folders
        self._usual = usual
        self._controllers = files
        self._held: dict[str, dict[int, int]] = {name: {} for name in files}
        self._most = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVE, 0)

    def text(self, name: str, path: str, identity: int) -> bytes | Gap:
        """The whole file. The first reading opens it."""
        try:
            fd = self._held[name][identity]
            text = os.pread(fd, self._usual, 0)
            return text if len(text) < self._usual else whole(fd)
        except KeyError:
            return self._first(name, path, identity)
        except OSError as error:
            os.close(self._held[name].pop(identity))
            if error.errno in _GONE:
                # Also where the file alone went and came again (cgroup.pressure, subtree_control).
                return self._first(name, path, identity)
            return self._folders.refusal(name, path, identity, error)

    def _first(self, name: str, path: str, identity: int) -> bytes | Gap:
        controller = self._controllers[name]
        if self.count() >= self._most:
            return self._folders.texts(controller, path, identity, (name,))[0]
        try:
            fd = self._open(name, path, identity)
            if isinstance(fd, Gap):
                return fd
            self._held[name][identity] = fd
            return whole(fd)
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS and self.count():
                self._give_back()
                return self._folders.texts(controller, path, identity, (name,))[0]
            return self._folders.refusal(name, path, identity, error)

    def _open(self, name: str, path: str, identity: int) -> int | Gap:
        folder = self._folders.open(self._controllers[name], path, identity)
        if isinstance(folder, Gap):
            return folder
        try:
            return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)

    def _give_back(self) -> None:
        """Room for everyone else, for good: from here on no more is held than fits now."""
        held = [(name, identity) for name, files in self._held.items() for identity in files]
        for name, identity in held[-_RESERVE:]:
            os.close(self._held[name].pop(identity))
        self._most = self.count()

    def count(self) -> int:
        return sum(map(len, self._held.values()))

    def keep(self, living: frozenset[int]) -> None:
        """Closes the descriptors of all other cgroups."""
        for held in self._held.values():
            for identity in held.keys() - living:
                os.close(held.pop(identity))

    def close(self) -> None:
        self.keep(frozenset())
