"""The only module that writes a cgroup file.

Owns the way from a change to the kernel: is it the cgroup that was meant, does the value already
stand there, and what the kernel said. Refuses to retry, to order and to remember; that is the
executor's.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from slackwater.execution.verdict import GONE, Note, Verdict, no_note, verdict_of
from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, Controller
from slackwater.model.cpus import CpuListError, CpuSet
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import Knob, KnobFile, KnobValue
from slackwater.model.knob_text import KnobRangeError, decode, encode, settled
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Bandwidth, Micros, Unlimited

_GROUP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_CHUNK = 65_536


class _StoppedError(Exception):
    """An attempt that ends here; carries its verdict past the open descriptors."""

    def __init__(self, verdict: Verdict, number: int = 0) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict
        self.number = number


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

    def lives(self, ref: CgroupRef) -> bool:
        """Whether the same cgroup still stands at its path. Only a clear no is a no: a process
        out of descriptors must not take every cgroup for gone."""
        try:
            os.close(self._open_identity(ref))
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        except _StoppedError as stopped:
            return stopped.verdict.result is not Result.VANISHED
        return True

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        match self.text(ref, knob):
            case Verdict(result=Result.VANISHED):
                return VANISHED
            case Verdict(detail=detail):
                return Gap(detail)
            case text:
                return self.value(knob, text)

    def text(self, ref: CgroupRef, knob: Knob) -> str | Verdict:
        """What the kernel shows, without the newline; a v1 bandwidth is "quota period"."""
        try:
            _, file = self._face(knob)
            with self._group(ref, knob.controller) as group:
                return _texts(group, file)
        except _StoppedError as stopped:
            return stopped.verdict
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
        if shown == settled(knob, value, self.page_size):
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
        verdict = self._attempt(change, note)
        took = Micros(self._clock() - started)
        return Outcome(change, verdict.result, verdict.detail, took)

    def restore(self, change: Change, text: str) -> Outcome:
        """Back to a text that the kernel once showed; `change.new` is its value."""
        del text
        return self.write(change)

    def _attempt(self, change: Change, note: Note) -> Verdict:
        try:
            version, file = self._face(change.knob)
            with self._group(change.ref, change.knob.controller) as group:
                return self._write(group, file, version, change, note)
        except _StoppedError as stopped:
            return stopped.verdict
        except KnobRangeError as error:
            return Verdict(Result.REFUSED, str(error))
        except OSError as error:
            return self._explain(change.ref, error)

    def _write(
        self, group: int, file: KnobFile, version: CgroupVersion, change: Change, note: Note
    ) -> Verdict:
        knob, current = change.knob, _texts(group, file)
        if self.shows(knob, current, change.new):
            return Verdict(Result.UNCHANGED)
        standing = decode(knob, version, current)
        if isinstance(standing, Gap):
            return Verdict(Result.REFUSED, standing.reason)
        text = encode(knob, version, change.new)
        refusal = note(current, text)
        if refusal is not None:
            return refusal
        if isinstance(standing, Bandwidth) and isinstance(change.new, Bandwidth) and file.period:
            _put_two(group, (file.name, file.period), standing, change.new, text)
        elif change.new == CpuSet():
            self._put_no_cpuset(group, file.name)
        else:
            _put(group, file.name, text)
        return Verdict(Result.APPLIED)

    def _put_no_cpuset(self, group: int, name: str) -> None:
        try:
            _put(group, name, "")
        except _StoppedError as stopped:
            every = self._every_cpu()
            if stopped.number != errno.ENOSPC or not every:
                raise
            _put(group, name, every.format())

    def _every_cpu(self) -> CpuSet:
        """What a v2 root has; nothing on v1, where an empty cpuset is really empty."""
        mount = self._mounts.mount(Controller.CPUSET)
        if isinstance(mount, Gap) or mount.version is CgroupVersion.V1:
            return CpuSet()
        root = os.open(mount.directory, _GROUP)
        try:
            return CpuSet.parse(_get(root, "cpuset.cpus.effective"))
        except (OSError, CpuListError):
            return CpuSet()
        finally:
            os.close(root)

    def _face(self, knob: Knob) -> tuple[CgroupVersion, KnobFile]:
        version = self.version(knob)
        face = version if isinstance(version, Gap) else knob.file(version)
        if isinstance(version, Gap) or isinstance(face, Gap):
            reason = face.reason if isinstance(face, Gap) else ""
            raise _StoppedError(Verdict(Result.UNSUPPORTED, reason))
        return version, face

    @contextmanager
    def _group(self, ref: CgroupRef, controller: Controller) -> Iterator[int]:
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
        group = os.open(self._directory(ref, Controller.CPU), _GROUP)
        if os.fstat(group).st_ino != ref.id:
            os.close(group)
            raise _StoppedError(
                Verdict(Result.VANISHED, f"another cgroup stands at {ref.path} by now")
            )
        return group

    def _open_twin(self, ref: CgroupRef, controller: Controller) -> int:
        """The same path in another v1 hierarchy. Runtimes remove a container's directories one
        hierarchy after the other, so a missing one means the end, not a missing feature."""
        try:
            return os.open(self._directory(ref, controller), _GROUP)
        except FileNotFoundError:
            raise _StoppedError(GONE) from None

    def _directory(self, ref: CgroupRef, controller: Controller) -> str:
        match self._mounts.directory(controller, ref.path):
            case Gap(reason):
                raise _StoppedError(Verdict(Result.UNSUPPORTED, reason))
            case directory:
                return directory

    def _explain(self, ref: CgroupRef, error: OSError) -> Verdict:
        """ENOENT comes from opening, ENODEV from a file that was open when its group went."""
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            return verdict_of(error)
        if not self.lives(ref):
            return GONE
        if error.errno == errno.ENOENT:
            return Verdict(Result.UNSUPPORTED, f"this cgroup has no {error.filename}")
        return verdict_of(error)


def _texts(group: int, file: KnobFile) -> str:
    if file.period is None:
        return _get(group, file.name)
    return f"{_get(group, file.name)} {_get(group, file.period)}"


def _get(group: int, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY, dir_fd=group)
    try:
        return (
            b"".join(iter(lambda: os.read(descriptor, _CHUNK), b""))
            .decode("ascii", "replace")
            .strip()
        )
    finally:
        os.close(descriptor)


def _put(group: int, name: str, text: str) -> None:
    """One write call, whose error is the kernel's answer. The newline makes an empty text one."""
    descriptor = os.open(name, os.O_WRONLY, dir_fd=group)
    try:
        os.write(descriptor, f"{text}\n".encode("ascii"))
    except OSError as error:
        # EACCES from write is a rule (a v1 cpuset outside its parent's: validate_change), not a
        # missing right: those show at open.
        result = Result.REFUSED if error.errno == errno.EACCES else verdict_of(error).result
        if error.errno == errno.ENODEV:
            raise
        detail = f"the kernel refused {text!r} in {name}: {error.strerror}"
        raise _StoppedError(Verdict(result, detail), error.errno or 0) from None
    finally:
        os.close(descriptor)


def _put_two(group: int, names: tuple[str, str], old: Bandwidth, new: Bandwidth, text: str) -> None:
    """A v1 bandwidth. Between two writes the lower of the two mixtures stands: quota / period.

    The kernel may refuse either mixture below or above groups with quotas of their own; then
    nothing changes. Periods are the kubelet's for a whole node, so this is for a lone group.
    """
    quota, period = text.split()
    steps = [(names[0], quota)] if old.limit != new.limit else []
    if old.period != new.period:
        at = 0 if _period_first(old, new) else len(steps)
        steps.insert(at, (names[1], period))
    before = _get(group, steps[0][0])
    _put(group, *steps[0])
    try:
        for step in steps[1:]:
            _put(group, *step)
    except _StoppedError:
        with suppress(_StoppedError):  # what the first write left is harsher than old and new
            _put(group, steps[0][0], before)
        raise


def _period_first(old: Bandwidth, new: Bandwidth) -> bool:
    """Whether old limit / new period is less than new limit / old period."""
    if isinstance(new.limit, Unlimited):
        return True
    if isinstance(old.limit, Unlimited):
        return False
    return old.limit * old.period < new.limit * new.period
