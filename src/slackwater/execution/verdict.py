"""How an attempt at a knob ended, and what an error number means for it.

Owns the errno table of the kernel's edge (architecture 5.12).
"""

import errno
import os
from collections.abc import Callable

import msgspec

from slackwater.model.gap import VANISHED, Gap
from slackwater.model.plan import Result

_NOT_HERE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Verdict(msgspec.Struct, frozen=True):
    """A result and one clause that explains it."""

    result: Result
    detail: str = ""

    def gap(self) -> Gap:
        """The same for whoever only wanted to read."""
        return VANISHED if self.result is Result.VANISHED else Gap(self.detail)


class StoppedError(Exception):
    """An attempt that ends here; carries its verdict past the open descriptors."""

    def __init__(self, verdict: Verdict, number: int = 0) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict
        self.number = number


#: Asked with the text that stands and the text to come, just before the first effect. A verdict
#: in return forbids the write.
Note = Callable[[str, str], Verdict | None]

GONE = Verdict(Result.VANISHED, "the cgroup is gone")


def no_note(_current: str, _ours: str) -> Verdict | None:
    """For values that nobody will ask back: probes and tests."""
    return None


def verdict_of(error: OSError) -> Verdict:
    """REFUSED is about this value now; UNSUPPORTED about this place."""
    result = Result.UNSUPPORTED if error.errno in _NOT_HERE else Result.REFUSED
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    return Verdict(result, f"{where}{reason}")
