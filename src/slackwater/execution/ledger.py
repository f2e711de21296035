"""The write-ahead note of every knob that we touched, so that each can be put back.

Owns one folder: a file of JSON lines, and a lock so that two agents never share it. Refuses to
interpret the texts that it keeps; the writers do. The first line, of which boot and hierarchy the
rest is, stands there twice: without it nothing else is worth anything.

No fsync anywhere. What a killed process wrote stays in the page cache, and only a crash of the
kernel loses it; that crash also ends every cgroup and empties /run, where systemd keeps runtime
properties, so a ledger of another boot is void anyway (kernfs ids start anew as well).
"""

import errno
import os
from contextlib import suppress

import msgspec

from slackwater.execution.folder_lock import locked
from slackwater.model.gap import Gap
from slackwater.model.knob import KNOBS
from slackwater.model.plan import LedgerEntry

FILE, LOCK, VOID = "ledger.jsonl", "ledger.lock", "ledger.void.jsonl"
_NEW = f"{FILE}.new"
_FORMAT = 1
#: Lines beyond twice the live ones before the file is written anew: about 64 KiB.
_SLACK = 200
_CHUNK = 1 << 20
_KNOWN = frozenset(knob.name for knob in KNOBS)

_Key = tuple[int, str, str]


class _Header(msgspec.Struct, frozen=True):
    ledger: int
    boot: str
    hierarchy: str


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of the two."""

    note: LedgerEntry | None = None
    clear: _Key | None = None


class Ledger:
    """Guards the folder's lock and file. Memory and file differ only while the disk is full."""

    def __init__(self, directory: str, boot_id: str, lock: int) -> None:
        self._directory = directory
        self._boot_id = boot_id
        #: One, but for a first line that was spoiled.
        self._hierarchies = {""}
        self._lock: int | None = lock
        self._file: int | None = None
        self._size = 0
        self._lines = 0
        self._compact_at = _SLACK
        #: The file's last line has no end: a writer was killed, or the disk was full.
        self._torn = False
        #: The file lacks a value of ours that did not fit on the disk.
        self._behind = False
        #: What was replayed may lack the last values of ours: they did not fit on the disk.
        self.is_old = False
        self._entries: dict[_Key, LedgerEntry] = {}
        self._problems: list[str] = []

    @classmethod
    def open(cls, directory: str, boot_id: str) -> "Ledger | Gap":
        """Locked and replayed. A Gap where another process holds it, or no file can be had."""
        lock: int | Gap = Gap("")
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            lock = locked(os.path.join(directory, LOCK))
            if isinstance(lock, Gap):
                return lock
            ledger = cls(directory, boot_id, lock)
            ledger._replay(_content(ledger._path(FILE)))
        except OSError as error:
            if isinstance(lock, int):
                os.close(lock)
            return Gap(f"the ledger in {directory} cannot be used: {error.strerror}")
        return ledger

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        return tuple(self._entries.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong with the file, one sentence each."""
        return tuple(self._problems)

    def check_hierarchy(self, hierarchy: str) -> Gap | None:
        """Whether the entries are about this one; an empty ledger is about any. In another one
        every noted cgroup would look gone."""
        if self._entries and hierarchy not in self._hierarchies:
            noted = " or ".join(sorted(self._hierarchies))
            return Gap(
                f"the ledger in {self._directory} is about the cgroup hierarchy {noted}, "
                f"and this is {hierarchy}: nothing is touched"
            )
        if hierarchy not in self._hierarchies:
            self._empty()
        self._hierarchies = {hierarchy}
        return None

    def find(self, cgroup: int, knob: str, route: str) -> LedgerEntry | None:
        return self._entries.get((cgroup, knob, route))

    def note(self, entry: LedgerEntry) -> Gap | None:
        """Keeps an entry, or says why not. A knob that is already noted is kept all the same:
        its baseline is safe, and a restart is told that its `ours` may be old."""
        failed = self._append(_Line(note=entry))
        known = entry.key() in self._entries
        if failed is None or known:
            self._entries[entry.key()] = entry
        self._behind = self._behind or (failed is not None and known)
        self._compact_if_due()
        return failed

    def clear(self, entry: LedgerEntry) -> None:
        """Forgets an entry: its knob is back at the baseline, or its cgroup is gone."""
        if self._entries.pop(entry.key(), None) is None:
            return
        if not self._entries:
            self._empty()
            return
        failed = self._append(_Line(clear=entry.key()))
        if failed is not None:
            self._problems.append(
                f"a released {entry.knob} of {entry.ref.path} is still noted: {failed.reason}"
            )
        self._compact_if_due()

    def close(self) -> None:
        """Gives up the lock. A second call does nothing."""
        held = [descriptor for descriptor in (self._file, self._lock) if descriptor is not None]
        self._file = self._lock = None
        for descriptor in held:
            os.close(descriptor)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _replay(self, content: bytes) -> None:
        if not content:
            return
        lines = content.split(b"\n")
        first = [_decoded(line) for line in lines[:2]]
        ours = [h for h in first if h is not None and self._is_ours(h)]
        if not ours:
            self._set_aside(first[0])
            return
        self._hierarchies = {header.hierarchy for header in ours}
        self._size, self._torn = len(content), not content.endswith(b"\n")
        self.is_old = self._torn
        bad = [
            number
            for number, line in enumerate(lines, 1)
            if line and not (number <= 2 and first[number - 1]) and not self._take(line)
        ]
        if bad:
            places = ", ".join(str(number) for number in bad[:5]) + (", ..." if bad[5:] else "")
            self._problems.append(
                f"{len(bad)} unreadable lines in {self._path(FILE)} are left out (line {places})"
            )

    def _is_ours(self, header: _Header) -> bool:
        return header.ledger == _FORMAT and header.boot == self._boot_id

    def _take(self, line: bytes) -> bool:
        """Whether it was a line of ours; the last word on a knob holds."""
        self._lines += 1
        try:
            found = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if found.clear is not None:
            self._entries.pop(found.clear, None)
            return True
        if found.note is None or found.note.knob not in _KNOWN:
            return False
        self._entries[found.note.key()] = found.note
        return True

    def _set_aside(self, header: _Header | None) -> None:
        os.rename(self._path(FILE), self._path(VOID))
        why = "its first line is unreadable, so that its boot is unknown"
        if header is not None:
            why = f"it belongs to boot {header.boot[:64]}, whose cgroups are gone"
        self._problems.append(f"the ledger was set aside as {self._path(VOID)}: {why}")

    def _start(self) -> bytes:
        header = _Header(_FORMAT, self._boot_id, min(self._hierarchies))
        return (msgspec.json.encode(header) + b"\n") * 2

    def _append(self, line: _Line) -> Gap | None:
        try:
            text = msgspec.json.encode(line) + b"\n"
            self._write(text)
        except OSError as error:
            return Gap(f"the ledger in {self._directory} takes no note: {error.strerror}")
        except UnicodeEncodeError:
            return Gap("the ledger takes no path that is not UTF-8")
        self._lines += 1
        return None

    def _write(self, text: bytes) -> None:
        """One write at the end. Half a line, on a disk that fills up, is cut off again."""
        if self._lock is None:
            raise OSError(errno.EBADF, "it is closed")
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = os.open(self._path(FILE), flags, 0o600)
        start = b"" if self._size else self._start()
        text = start + (b"\n" if self._torn else b"") + text
        written = os.write(self._file, text)
        if written == len(text):
            self._size, self._torn = self._size + written, False
            return
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._size, self._torn = self._size + written, True
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _tear(self) -> None:
        """Takes the last line's end away: the one note that fits on a full disk."""
        if self._file is None or self._torn or not self._size:
            return
        with suppress(OSError):
            os.ftruncate(self._file, self._size - 1)
            self._size, self._torn = self._size - 1, True

    def _empty(self) -> None:
        """Shrinking a file works on a full disk, where a line more does not."""
        if self._file is None and self._size == 0:
            return
        try:
            os.truncate(self._path(FILE), 0)
        except OSError as error:
            self._problems.append(f"{self._path(FILE)} cannot be emptied: {error.strerror}")
            return
        self._size, self._lines, self._torn, self._behind = 0, 0, False, False
        self.is_old = False  # what is noted from here on is complete

    def _compact_if_due(self) -> None:
        """Writes the live entries anew once most lines are old, or one is that should not be; a
        failure keeps the old file."""
        due = self._lines > max(self._compact_at, 2 * len(self._entries) + _SLACK)
        if not due and not self._behind:
            return
        try:
            self._compact()
            self._compact_at, self._behind = _SLACK, False
        except OSError:
            self._compact_at = 2 * self._lines
            with suppress(OSError):
                os.unlink(self._path(_NEW))
            if self._behind:
                self._tear()

    def _compact(self) -> None:
        lines = (msgspec.json.encode(_Line(note=entry)) + b"\n" for entry in self.entries)
        text = self._start() + b"".join(lines)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        new = os.open(self._path(_NEW), flags, 0o600)
        try:
            if os.write(new, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.rename(self._path(_NEW), self._path(FILE))
        except OSError:
            os.close(new)
            raise
        if self._file is not None:
            os.close(self._file)
        self._file, self._size, self._torn = new, len(text), False
        self._lines = len(self._entries)


def _decoded(line: bytes) -> _Header | None:
    try:
        return msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _content(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, _CHUNK), b""))
    finally:
        os.close(descriptor)
