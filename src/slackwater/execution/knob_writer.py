"""What writes knobs, as its callers see it: a kernel's files, systemd's units, or a fake kernel.

Owns the protocols of both kinds of writers, how an attempt at a knob ends, and what an error number
means for it.
"""

import errno
import os
from collections.abc import Callable
from typing import Protocol

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.knob import Knob, KnobValue
from slackwater.model.plan import Change, Outcome, Result

_NOT_HERE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Attempt(msgspec.Struct, frozen=True):
    """How an attempt to read or write a knob ended: a result and one clause that explains it."""

    result: Result
    detail: str = ""

    def gap(self) -> Gap:
        """The same for whoever only wanted to read."""
        return VANISHED if self.result is Result.VANISHED else Gap(self.detail)


class StoppedError(Exception):
    """Ends an attempt past the open descriptors, and carries how it ended."""

    def __init__(self, attempt: Attempt, number: int = 0) -> None:
        super().__init__(attempt.detail)
        self.attempt = attempt
        self.number = number


#: Called with the current text and the text to come, just before the first effect. An Attempt in
#: return forbids the write.
Note = Callable[[str, str], Attempt | None]

GONE = Attempt(Result.VANISHED, "the cgroup is gone")


class KnobWriter(Protocol):
    """Reads and writes knobs of cgroups in one spelling: the kernel's, or systemd's."""

    def text(self, ref: CgroupRef, knob: Knob, /) -> str | Attempt:
        """What is set now, in this writer's spelling."""
        ...

    def write(self, change: Change, note: Note = ..., /) -> Outcome:
        """One change, unless its value is already set."""
        ...

    def restore(self, change: Change, text: str, /) -> Outcome:
        """Back to a text that was read before; `change.new` is its value."""
        ...


class KnobFiles(KnobWriter, Protocol):
    """Knobs as a kernel's files, which say what is in force: CgroupWriter or the fake kernel."""

    @property
    def page_size(self) -> int: ...

    def version(self, knob: Knob, /) -> CgroupVersion | Gap: ...

    def hierarchy(self) -> str | Gap:
        """Which hierarchy this is: the same text through every mount of it."""
        ...

    def locate(self, path: str, /) -> int | None:
        """The id of the cgroup that is at this path; None where none is."""
        ...

    def lives(self, ref: CgroupRef, /) -> bool:
        """Whether the same cgroup is still at its path."""
        ...

    def read(self, ref: CgroupRef, knob: Knob, /) -> KnobValue | Gap: ...

    def value(self, knob: Knob, text: str, /) -> KnobValue | Gap:
        """The value behind a text of this kernel's."""
        ...

    def shows(self, knob: Knob, text: str, value: KnobValue, /) -> bool:
        """Whether this text is how the kernel shows that value once it was written."""
        ...


def no_note(_current: str, _ours: str) -> Attempt | None:
    """For values that nobody will ask back: probes and tests."""
    return None


def failed_attempt(error: OSError) -> Attempt:
    """REFUSED is about this value now; UNSUPPORTED about this place."""
    result = Result.UNSUPPORTED if error.errno in _NOT_HERE else Result.REFUSED
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    return Attempt(result, f"{where}{reason}")
