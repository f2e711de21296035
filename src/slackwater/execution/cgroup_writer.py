"""The only way to a cgroup's file.

Owns the way from a change to the kernel: is it the cgroup that was meant, does the value already
stand there, and what the kernel said; knob_file is its hand. Refuses to retry, to order and to
remember; that is the executor's.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slackwater.execution.knob_file import check_writable, get, put, put_two, texts
from slackwater.execution.verdict import GONE, Note, StoppedError, Verdict, no_note, verdict_of
from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, Controller
from slackwater.model.cpus import CpuListError, CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import Knob, KnobFile, KnobValue
from slackwater.model.knob_text import KnobRangeError, decode, encode, settled
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.units import Bandwidth, Micros

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

    def lives(self, ref: CgroupRef) -> bool:
        """Whether the same cgroup still stands at its path. Only a clear no is a no: a process
        out of descriptors must not take every cgroup for gone."""
        try:
            os.close(self._open_identity(ref))
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        except StoppedError as stopped:
            return stopped.verdict.result is not Result.VANISHED
        return True

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        match self.text(ref, knob):
            case Verdict() as verdict:
                return verdict.gap()
            case text:
                return self.value(knob, text)

    def text(self, ref: CgroupRef, knob: Knob) -> str | Verdict:
        """What the kernel shows, without the newline; a v1 bandwidth is "quota period"."""
        try:
            _, file = self._face(knob)
            with self._group(ref, knob.controller) as group:
                return texts(group, file)
        except StoppedError as stopped:
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
        except StoppedError as stopped:
            return stopped.verdict
        except KnobRangeError as error:
            return Verdict(Result.REFUSED, str(error))
        except OSError as error:
            return self._explain(change.ref, error)

    def _write(
        self, group: int, file: KnobFile, version: CgroupVersion, change: Change, note: Note
    ) -> Verdict:
        knob, current = change.knob, texts(group, file)
        if self.shows(knob, current, change.new):
            return Verdict(Result.UNCHANGED)
        standing = decode(knob, version, current)
        if isinstance(standing, Gap):
            return Verdict(Result.REFUSED, standing.reason)
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
        return Verdict(Result.APPLIED)

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
        mount = self._mounts.mount(Controller.CPUSET)
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
            raise StoppedError(Verdict(Result.UNSUPPORTED, reason))
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
            raise StoppedError(
                Verdict(Result.VANISHED, f"another cgroup stands at {ref.path} by now")
            )
        return group

    def _open_twin(self, ref: CgroupRef, controller: Controller) -> int:
        """The same path in another v1 hierarchy. A group need not be in every one, and runtimes
        remove them one after the other: only the identity's directory says that it is gone."""
        try:
            return os.open(self._directory(ref, controller), _GROUP)
        except FileNotFoundError:
            absent = f"the group is not in the {controller.value} hierarchy"
            verdict = Verdict(Result.REFUSED, absent) if self.lives(ref) else GONE
            raise StoppedError(verdict) from None

    def _directory(self, ref: CgroupRef, controller: Controller) -> str:
        match self._mounts.directory(controller, ref.path):
            case Gap(reason):
                raise StoppedError(Verdict(Result.UNSUPPORTED, reason))
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
