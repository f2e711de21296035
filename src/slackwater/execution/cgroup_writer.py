"""The only way to a cgroup's file.

Owns the way from a change to the kernel: whether it is the cgroup that was meant, whether the
value is already set, the bytes on their way there and back, the two writes of a v1 bandwidth, and
what the kernel said. Does not retry, order or remember; that is the executor's.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from slackwater.execution.knob_writer import (
    GONE,
    Attempt,
    Note,
    StoppedError,
    failed_attempt,
    no_note,
)
from slackwater.model.cgroup import CgroupController, CgroupMounts, CgroupRef, CgroupVersion
from slackwater.model.cpus import CpuListError, CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import Knob, KnobFile, KnobValue
from slackwater.model.knob_text import KnobRangeError, decode, encode, settle_in_file
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Bandwidth, Micros, Unlimited

_READ_SIZE = 65_536


def texts(group: int, file: KnobFile) -> str:
    """A v1 bandwidth is one text, "quota period"."""
    if file.period is None:
        return get(group, file.name)
    return f"{get(group, file.name)} {get(group, file.period)}"


def get(group: int, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY, dir_fd=group)
    try:
        return (
            b"".join(iter(lambda: os.read(descriptor, _READ_SIZE), b""))
            .decode("ascii", "replace")
            .strip()
        )
    finally:
        os.close(descriptor)


def check_writable(group: int, file: KnobFile) -> None:
    """Raises where a right is missing or the mount is read-only, without any effect."""
    for name in (file.name, file.period):
        if name is not None:
            os.close(os.open(name, os.O_WRONLY, dir_fd=group))


def put(group: int, name: str, text: str) -> None:
    """One write call, whose error is the kernel's answer. The newline makes an empty text one."""
    descriptor = os.open(name, os.O_WRONLY, dir_fd=group)
    try:
        os.write(descriptor, f"{text}\n".encode("ascii"))
    except OSError as error:
        # EACCES from write is a rule (a v1 cpuset outside its parent's: validate_change), not a
        # missing right: those show at open.
        result = Result.REFUSED if error.errno == errno.EACCES else failed_attempt(error).result
        if error.errno == errno.ENODEV:
            raise
        why = _why_refused(name, error)
        detail = f"the kernel refused {text!r} in {name}: {error.strerror}{why}"
        raise StoppedError(Attempt(result, detail), error.errno or 0) from None
    finally:
        os.close(descriptor)


def _why_refused(name: str, error: OSError) -> str:
    """v1 alone: a group may be made below a container's that nobody here knows of."""
    busy = error.errno == errno.EBUSY and name == "cpuset.cpus"
    return " (a group below it has CPUs outside of these)" if busy else ""


def put_two(group: int, file: KnobFile, old: Bandwidth, new: Bandwidth, text: str) -> None:
    """A v1 bandwidth, quota / period. Between the two writes a mixture stands.

    The lower mixture is tried first, so that nobody gets more than both old and new give. A
    group above others with quotas of their own may not go so low; then the higher one. The
    kernel may refuse either; then nothing changes.
    """
    quota, period = text.split()
    steps = [(file.name, quota)] if old.limit != new.limit else []
    if old.period != new.period:
        at = 0 if _period_first(old, new) else len(steps)
        steps.insert(at, (file.period or "", period))
    try:
        _put_in_turn(group, steps)
    except StoppedError:
        if len(steps) == 1:
            raise
        _put_in_turn(group, steps[::-1])


def _put_in_turn(group: int, steps: list[tuple[str, str]]) -> None:
    before = get(group, steps[0][0])
    put(group, *steps[0])
    try:
        for step in steps[1:]:
            put(group, *step)
    except StoppedError:
        with suppress(StoppedError):  # it was let go from there, so it is let back, mostly
            put(group, steps[0][0], before)
        raise


def _period_first(old: Bandwidth, new: Bandwidth) -> bool:
    """Whether old limit / new period is less than new limit / old period."""
    if isinstance(new.limit, Unlimited):
        return True
    if isinstance(old.limit, Unlimited):
        return False
    return old.limit * old.period < new.limit * new.period


_GROUP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


class CgroupWriter:
    """Reads and writes knobs as kernel files, in whichever hierarchy each one lives."""

    def __init__(self, mounts: CgroupMounts, page_size: int, clock: Callable[[], Micros]) -> None:
        self.page_size = page_size
        self._mounts = mounts
        self._clock = clock

    def version(self, knob: Knob) -> CgroupVersion | Gap:
        match self._mounts.mount(knob.controller):
            case Gap() as gap:
                return gap
            case mount:
                return mount.version

    def hierarchy(self) -> str | Gap:
        """Which hierarchy this is: the same through every bind mount of it, another in a cgroup
        namespace, whose root is another group."""
        match self._mounts.identity():
            case Gap() as gap:
                return gap
            case mount:
                try:
                    found = os.stat(mount.directory)
                except OSError as error:
                    return Gap(f"the cgroup root {mount.directory}: {error.strerror}")
                return f"{found.st_dev}:{found.st_ino}"

    def locate(self, path: str) -> int | None:
        match self._mounts.directory(CgroupController.CPU, path):
            case Gap():
                return None
            case directory:
                try:
                    return os.stat(directory, follow_symlinks=False).st_ino
                except OSError:
                    return None

    def lives(self, ref: CgroupRef) -> bool:
        """Whether the same cgroup still stands at its path. Only a clear no is a no: a process
        out of descriptors must not take every cgroup for gone."""
        try:
            os.close(self._open_identity(ref))
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        except StoppedError as stopped:
            return stopped.attempt.result is not Result.VANISHED
        return True

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        match self.text(ref, knob):
            case Attempt() as attempt:
                return attempt.gap()
            case text:
                return self.value(knob, text)

    def text(self, ref: CgroupRef, knob: Knob) -> str | Attempt:
        """What the kernel shows, without the newline; a v1 bandwidth is "quota period"."""
        try:
            _, file = self._face(knob)
            with self._group(ref, knob.controller) as group:
                return texts(group, file)
        except StoppedError as stopped:
            return stopped.attempt
        except OSError as error:
            return self._explain(ref, error)

    def value(self, knob: Knob, text: str) -> KnobValue | Gap:
        """The value behind a text of this kernel's."""
        match self.version(knob):
            case Gap() as gap:
                return gap
            case version:
                return decode(knob, version, text)

    def shows(self, knob: Knob, text: str, value: KnobValue) -> bool:
        """Whether this text is how the kernel shows that value once it was written.

        An empty cpuset of v2, "as the parent", cannot be had again while processes are in the
        group (ENOSPC from validate_change): every CPU there is means the same.
        """
        shown = self.value(knob, text)
        if shown == settle_in_file(knob, value, self.page_size):
            return True
        if value != CpuSet() or not isinstance(shown, CpuSet):
            return False
        every = self._every_cpu()
        return len(every) > 0 and every.within(shown)

    def write(self, change: Change, note: Note = no_note) -> Outcome:
        """One change, unless its value already stands there.

        An equal value is not written: the kernel would unthrottle the group for it
        (tg_set_cfs_bandwidth) and its budget for the period would start anew.
        """
        started = self._clock()
        attempt = self._attempt(change, note)
        took = Micros(self._clock() - started)
        return Outcome(change, attempt.result, attempt.detail, took)

    def restore(self, change: Change, _text: str) -> Outcome:
        """Back to a text that the kernel once showed; `change.new` is its value."""
        return self.write(change)

    def _attempt(self, change: Change, note: Note) -> Attempt:
        try:
            version, file = self._face(change.knob)
            with self._group(change.ref, change.knob.controller) as group:
                return self._write(group, file, version, change, note)
        except StoppedError as stopped:
            return stopped.attempt
        except KnobRangeError as error:
            return Attempt(Result.REFUSED, str(error))
        except OSError as error:
            return self._explain(change.ref, error)

    def _write(
        self, group: int, file: KnobFile, version: CgroupVersion, change: Change, note: Note
    ) -> Attempt:
        knob, current = change.knob, texts(group, file)
        if self.shows(knob, current, change.new):
            return Attempt(Result.UNCHANGED)
        standing = decode(knob, version, current)
        if isinstance(standing, Gap):
            return Attempt(Result.REFUSED, standing.reason)
        text = encode(knob, version, change.new)
        check_writable(group, file)  # ahead of the note: what cannot be written needs none
        refusal = note(current, text)
        if refusal is not None:
            return refusal
        if isinstance(standing, Bandwidth) and isinstance(change.new, Bandwidth) and file.period:
            put_two(group, file, standing, change.new, text)
        elif change.new == CpuSet():
            self._put_no_cpuset(group, file.name)
        else:
            put(group, file.name, text)
        return Attempt(Result.APPLIED)

    def _put_no_cpuset(self, group: int, name: str) -> None:
        try:
            put(group, name, "")
        except StoppedError as stopped:
            every = self._every_cpu()
            if stopped.number != errno.ENOSPC or not every:
                raise
            put(group, name, every.format())

    def _every_cpu(self) -> CpuSet:
        """What a v2 root has; nothing on v1, where an empty cpuset is really empty."""
        mount = self._mounts.mount(CgroupController.CPUSET)
        if isinstance(mount, Gap) or mount.version is CgroupVersion.V1:
            return CpuSet()
        root = os.open(mount.directory, _GROUP)
        try:
            return CpuSet.parse(get(root, "cpuset.cpus.effective"))
        except (OSError, CpuListError):
            return CpuSet()
        finally:
            os.close(root)

    def _face(self, knob: Knob) -> tuple[CgroupVersion, KnobFile]:
        version = self.version(knob)
        face = version if isinstance(version, Gap) else knob.file(version)
        if isinstance(version, Gap) or isinstance(face, Gap):
            reason = face.reason if isinstance(face, Gap) else ""
            raise StoppedError(Attempt(Result.UNSUPPORTED, reason))
        return version, face

    @contextmanager
    def _group(self, ref: CgroupRef, controller: CgroupController) -> Iterator[int]:
        """The cgroup's directory in this controller's hierarchy, checked to be the one meant."""
        group = self._open_identity(ref)
        if self._mounts.mount(controller) != self._mounts.identity():
            os.close(group)
            group = self._open_twin(ref, controller)
        try:
            yield group
        finally:
            os.close(group)

    def _open_identity(self, ref: CgroupRef) -> int:
        group = os.open(self._directory(ref, CgroupController.CPU), _GROUP)
        if os.fstat(group).st_ino != ref.id:
            os.close(group)
            raise StoppedError(
                Attempt(Result.VANISHED, f"another cgroup stands at {ref.path} by now")
            )
        return group

    def _open_twin(self, ref: CgroupRef, controller: CgroupController) -> int:
        """The same path in another v1 hierarchy. A group need not be in every one, and runtimes
        remove them one after the other: only the identity's directory says that it is gone."""
        try:
            return os.open(self._directory(ref, controller), _GROUP)
        except FileNotFoundError:
            absent = f"the group is not in the {controller.value} hierarchy"
            attempt = Attempt(Result.REFUSED, absent) if self.lives(ref) else GONE
            raise StoppedError(attempt) from None

    def _directory(self, ref: CgroupRef, controller: CgroupController) -> str:
        match self._mounts.directory(controller, ref.path):
            case Gap(reason):
                raise StoppedError(Attempt(Result.UNSUPPORTED, reason))
            case directory:
                return directory

    def _explain(self, ref: CgroupRef, error: OSError) -> Attempt:
        """ENOENT comes from opening, ENODEV from a file that was open when its group went."""
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            return failed_attempt(error)
        if not self.lives(ref):
            return GONE
        if error.errno == errno.ENOENT:
            return Attempt(Result.UNSUPPORTED, f"this cgroup has no {error.filename}")
        return failed_attempt(error)
