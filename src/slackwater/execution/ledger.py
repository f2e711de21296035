"""The write-ahead note of every knob that we touched, so that each can be put back.

Owns one folder: a file of JSON lines, and a lock so that two agents never share it. Refuses to
interpret the texts that it keeps; the writers do. The first line, of which boot and hierarchy the
rest is, stands there twice: without it nothing else is worth anything.

Another version of the agent may have written it, as an upgrade and its rollback show. What is not
understood (a knob, a field, a kind of line) is kept as it stands, and written back; a new field of
a note has to have a default. A file whose header asks for a newer reader is not touched at all.

No fsync anywhere. What a killed process wrote stays in the page cache, and only a crash of the
kernel loses it; that crash also ends every cgroup and empties /run, where systemd keeps runtime
properties, so a ledger of another boot is void anyway (kernfs ids start anew as well).
"""

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec

from slackwater.execution.folder_lock import locked, untrusted_folder
from slackwater.execution.ledger_lines import (
    Key,
    LedgerHeader,
    LedgerLine,
    decode_header,
    decode_json,
)
from slackwater.model.cgroup import CgroupRef
from slackwater.model.gap import Gap
from slackwater.model.knob import KNOBS
from slackwater.model.plan import LedgerEntry, StartNote

FILE, LOCK, VOID = "ledger.jsonl", "ledger.lock", "ledger.void.jsonl"
_NEW = f"{FILE}.new"
_FORMAT = 1
#: How many ledgers that were set aside are kept.
_VOIDS = 5
#: How many sentences about the file are kept.
_MOST_PROBLEMS = 10
#: Lines beyond twice the live ones before the file is written anew: about 64 KiB.
_SLACK = 200
#: Containers that were told to a runtime and that no tick has seen since. More than a node starts.
MOST_STARTS = 1000
_CHUNK = 1 << 20
_KNOWN = frozenset(knob.name for knob in KNOBS)


class Ledger:
    """Guards the folder's lock and file. Memory and file differ only while the disk is full. The
    tick's thread notes and clears knobs, the one that talks to a container runtime notes starts."""

    def __init__(self, directory: str, boot_id: str, init: str, lock: int) -> None:
        self._directory = directory
        self._boot_id = boot_id
        #: When process 1 was started; empty where that is not known.
        self._init = init
        #: Of the file, where a newer version wrote it.
        self._format, self._reader = _FORMAT, _FORMAT
        #: The same, as the file says it.
        self._noted_init = init
        #: Why the file is not to be touched.
        self._unusable: Gap | None = None
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
        self._entries: dict[Key, LedgerEntry] = {}
        #: The lines that entries were read from; a new note takes its line's place.
        self._read: dict[Key, bytes] = {}
        #: Entries of knobs that this version does not know.
        self._foreign: dict[Key, bytes] = {}
        #: Lines of a kind that this version does not know.
        self._verbatim: list[bytes] = []
        #: By the container's path.
        self._starts: dict[str, StartNote] = {}
        self._problems: list[str] = []
        self._one_writer = threading.RLock()

    @classmethod
    def open(cls, directory: str, boot_id: str, init: str = "", before: str = "") -> "Ledger | Gap":
        """Locked and replayed. A Gap where another process holds it, or no file can be had. `init`
        says when process 1 was started; `before` is a folder whose ledger is taken over where this
        one has none."""
        lock: int | Gap = Gap("")
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            untrusted = untrusted_folder(directory)
            if untrusted is not None:
                return untrusted
            lock = locked(os.path.join(directory, LOCK))
            if isinstance(lock, Gap):
                return lock
            ledger = cls(directory, boot_id, init, lock)
            ledger._take_over(before)
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
    def starts(self) -> tuple[StartNote, ...]:
        """Those that no tick has dealt with yet."""
        with self._one_writer:
            return tuple(self._starts.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong with the file, one sentence each."""
        return tuple(self._problems)

    def check_hierarchy(
        self, hierarchy: str, lives: Callable[[CgroupRef], bool] = lambda _ref: True
    ) -> Gap | None:
        """Whether the entries are about this one; an empty ledger is about any. In another one
        every noted cgroup would look gone. `lives` says whether a cgroup does."""
        if self._unusable is not None:
            return self._unusable
        known = hierarchy in self._hierarchies
        if not known and self._has_lines() and self._is_restarted(lives):
            self._set_aside_later("the node is a container that was started again")
        if not known and self._has_lines():
            noted = " or ".join(sorted(self._hierarchies))
            return Gap(
                f"the ledger in {self._directory} is about the cgroup hierarchy {noted}, "
                f"and this is {hierarchy}: nothing is touched"
            )
        with self._one_writer:
            if not known:
                self._empty()
            self._hierarchies = {hierarchy}
        return None

    @property
    def unusable(self) -> Gap | None:
        """Why nothing may be touched: a newer version's notes are not understood."""
        return self._unusable

    def _has_lines(self) -> bool:
        return bool(self._entries or self._foreign or self._verbatim or self._starts)

    def _is_restarted(self, lives: Callable[[CgroupRef], bool]) -> bool:
        """Whether the entries are of a node that is a container and was started anew: then its boot
        is the same, but neither process 1, nor the hierarchy, nor any cgroup is."""
        known = bool(self._noted_init and self._init)
        other = known and self._noted_init != self._init
        return other and not any(lives(entry.ref) for entry in self.entries)

    def find(self, cgroup: int, knob: str, route: str) -> LedgerEntry | None:
        return self._entries.get((cgroup, knob, route))

    def note(self, entry: LedgerEntry) -> Gap | None:
        """Keeps an entry, or says why not. A knob that is already noted is kept all the same:
        its baseline is safe, and a restart is told that its `ours` may be old."""
        with self._one_writer:
            if self._unusable is not None:
                return self._unusable
            failed = self._append(LedgerLine(note=entry))
            known = entry.key() in self._entries
            if failed is None or known:
                self._entries[entry.key()] = entry
                self._read.pop(entry.key(), None)
            self._behind = self._behind or (failed is not None and known)
            self._compact_if_due()
            return failed

    def clear(self, entry: LedgerEntry) -> None:
        """Forgets an entry: its knob is back at the baseline, or its cgroup is gone."""
        with self._one_writer:
            if self._entries.pop(entry.key(), None) is None:
                return
            self._read.pop(entry.key(), None)
            if self._empty_if_unused():
                return
            failed = self._append(LedgerLine(clear=entry.key()))
            if failed is not None:
                self._tell(
                    f"a released {entry.knob} of {entry.ref.path} is still noted: {failed.reason}"
                )
            self._compact_if_due()

    def note_start(self, note: StartNote) -> Gap | None:
        """Before a runtime is told: why that must not be, or None. From any thread."""
        with self._one_writer:
            if self._unusable is not None:
                return self._unusable
            if len(self._starts) >= MOST_STARTS and note.path not in self._starts:
                return Gap(f"{MOST_STARTS} containers were started that no tick has seen")
            failed = self._append(LedgerLine(start=note))
            if failed is None:
                self._starts[note.path] = note
            self._compact_if_due()
            return failed

    def forget_start(self, note: StartNote) -> None:
        """A tick has seen the container, or it never came. A newer note of the same stays."""
        with self._one_writer:
            if self._starts.get(note.path) != note:
                return
            del self._starts[note.path]
            if not self._empty_if_unused():
                self._append(LedgerLine(forget=note.path))
                self._compact_if_due()

    def _empty_if_unused(self) -> bool:
        if self._has_lines():
            return False
        self._empty()
        return True

    def close(self) -> None:
        """Gives up the lock. A second call does nothing."""
        held = [descriptor for descriptor in (self._file, self._lock) if descriptor is not None]
        self._file = self._lock = None
        for descriptor in held:
            os.close(descriptor)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _take_over(self, before: str) -> None:
        """From the folder where ledgers used to be. It is copied: the old file system may be
        read-only. One that is here, even an empty one, is newer."""
        if not before or before == self._directory or os.path.lexists(self._path(FILE)):
            return
        content = _content(os.path.join(before, FILE))
        first = decode_header(content.partition(b"\n")[0])
        if first is None or first.boot != self._boot_id:
            return
        self._write_anew(content)
        with suppress(OSError):
            os.unlink(os.path.join(before, FILE))

    def _replay(self, content: bytes) -> None:
        if not content:
            return
        lines = content.split(b"\n")
        first = [decode_header(line) for line in lines[:2]]
        self._unusable = self._why_unusable(lines[:2])
        ours = [h for h in first if h is not None and h.boot == self._boot_id]
        if self._unusable is not None:
            return
        if not ours:
            why = "its first line is unreadable, so that its boot is unknown"
            if first[0] is not None:
                why = f"it belongs to boot {first[0].boot[:64]}, whose cgroups are gone"
            self._set_aside(why)
            return
        self._hierarchies = {header.hierarchy for header in ours}
        self._format, self._reader = max((header.ledger, header.reader) for header in ours)
        self._noted_init = ours[0].init
        self._size, self._torn = len(content), not content.endswith(b"\n")
        self.is_old = self._torn
        bad = [
            number
            for number, line in enumerate(lines, 1)
            if line and not (number <= 2 and first[number - 1]) and not self._take(line)
        ]
        if bad:
            places = ", ".join(str(number) for number in bad[:5]) + (", ..." if bad[5:] else "")
            self._tell(
                f"{len(bad)} unreadable lines in {self._path(FILE)} are left out (line {places})"
            )
        kept = len(self._foreign) + len(self._verbatim)
        if kept:
            self._tell(
                f"{kept} lines in {self._path(FILE)} are another version's: they are kept, and "
                "what they are about is not touched"
            )

    def _why_unusable(self, lines: list[bytes]) -> Gap | None:
        """Of a file whose header, of this boot or not to be read, asks for a newer reader."""
        for line in lines:
            found = decode_json(line)
            if not isinstance(found, dict) or not isinstance(found.get("ledger"), int):
                continue
            needed = found.get("reader", found["ledger"])
            newer = not isinstance(needed, int) or needed > _FORMAT
            if newer and found.get("boot", self._boot_id) == self._boot_id:
                why = (
                    f"{self._path(FILE)} was written by a newer version (format "
                    f"{found['ledger']}, this one reads {_FORMAT}): nothing is touched"
                )
                self._tell(why)
                return Gap(why)
        return None

    def _take(self, line: bytes) -> bool:
        """Whether it can be used or kept; the last word on a knob holds."""
        self._lines += 1
        found = decode_json(line)
        if not isinstance(found, dict) or not found:
            return False
        try:
            read = msgspec.convert(found, LedgerLine)
        except msgspec.ValidationError:
            read = LedgerLine()
        if read.clear is not None:
            self._entries.pop(read.clear, None)
            self._read.pop(read.clear, None)
            self._foreign.pop(read.clear, None)
        elif read.forget is not None:
            self._starts.pop(read.forget, None)
        elif read.start is not None:
            self._starts[read.start.path] = read.start
        elif read.note is None:
            self._verbatim.append(line)
        elif read.note.knob not in _KNOWN:
            self._foreign[read.note.key()] = line
        else:
            self._entries[read.note.key()] = read.note
            self._read[read.note.key()] = line
        return True

    def _tell(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)
        del self._problems[:-_MOST_PROBLEMS]

    def _set_aside(self, why: str) -> None:
        """As one of a few; after those the last one is replaced."""
        names = [VOID, *(f"ledger.void.{n}.jsonl" for n in range(2, _VOIDS + 1))]
        free = (name for name in names if not os.path.lexists(self._path(name)))
        name = next(free, names[-1])
        if self._file is not None:
            os.close(self._file)
            self._file = None
        os.rename(self._path(FILE), self._path(name))
        self._entries.clear()
        self._read.clear()
        self._foreign.clear()
        self._verbatim.clear()
        self._size, self._lines, self._torn, self._behind = 0, 0, False, False
        self.is_old = False
        self._noted_init = self._init
        self._format = self._reader = _FORMAT
        self._tell(f"the ledger was set aside as {self._path(name)}: {why}")

    def _set_aside_later(self, why: str) -> None:
        """After the start; where it cannot be done, nothing is touched."""
        try:
            self._set_aside(why)
        except OSError as error:
            self._tell(f"{self._path(FILE)} cannot be set aside: {error.strerror}")

    def _start(self) -> bytes:
        hierarchy, init = min(self._hierarchies), self._noted_init
        header = LedgerHeader(self._format, self._boot_id, hierarchy, self._reader, init)
        return (msgspec.json.encode(header) + b"\n") * 2

    def _append(self, line: LedgerLine) -> Gap | None:
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
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
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
            self._tell(f"{self._path(FILE)} cannot be emptied: {error.strerror}")
            return
        self._size, self._lines, self._torn, self._behind = 0, 0, False, False
        self.is_old = False  # what is noted from here on is complete

    def _compact_if_due(self) -> None:
        """Writes the live entries anew once most lines are old, or one is that should not be; a
        failure keeps the old file."""
        live = len(self._entries) + len(self._foreign) + len(self._verbatim) + len(self._starts)
        due = self._lines > max(self._compact_at, 2 * live + _SLACK)
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
        encode = msgspec.json.encode
        lines = [
            self._read.get(key) or encode(LedgerLine(note=entry))
            for key, entry in self._entries.items()
        ]
        lines += [encode(LedgerLine(start=note)) for note in self._starts.values()]
        kept = [*self._verbatim, *self._foreign.values(), *lines]
        self._write_anew(self._start() + b"".join(line + b"\n" for line in kept))
        self._lines = len(kept)

    def _write_anew(self, text: bytes) -> None:
        """As a whole or not at all."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(_NEW))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
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


def _content(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, _CHUNK), b""))
    finally:
        os.close(descriptor)
