"""The files of one cgroup that is open: what stands in them, and one write call at a time.

Owns the bytes on their way to the kernel and back, and the two writes of a v1 bandwidth. Refuses
to know which cgroup it is; cgroup_writer does.
"""

import errno
import os
from contextlib import suppress

from slackwater.execution.verdict import StoppedError, Verdict, verdict_of
from slackwater.model.knob import KnobFile
from slackwater.model.plan import Result
from slackwater.model.units import Bandwidth, Unlimited

_CHUNK = 65_536


def texts(group: int, file: KnobFile) -> str:
    """A v1 bandwidth is one text, "quota period"."""
    if file.period is None:
        return get(group, file.name)
    return f"{get(group, file.name)} {get(group, file.period)}"


def get(group: int, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY, dir_fd=group)
    try:
        return (
            b"".join(iter(lambda: os.read(descriptor, _CHUNK), b""))
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
        result = Result.REFUSED if error.errno == errno.EACCES else verdict_of(error).result
        if error.errno == errno.ENODEV:
            raise
        detail = f"the kernel refused {text!r} in {name}: {error.strerror}"
        raise StoppedError(Verdict(result, detail), error.errno or 0) from None
    finally:
        os.close(descriptor)


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
