"""Gap: a value that could not be had, and why. Missing is never a zero."""

import msgspec


class Gap(msgspec.Struct, frozen=True, gc=False, tag="gap", omit_defaults=True):
    """Something that was not read. `reason` is one clause a person can act on. `is_idle`: nothing
    is wrong, there was only nothing to measure, such as no request since the last look.
    `is_lasting`: looking again brings nothing, somebody has to change something."""

    reason: str
    is_idle: bool = False
    is_lasting: bool = False


#: The cgroup was removed while, or before, we looked: an ordinary end, not a fault.
VANISHED = Gap("the cgroup is gone")
#: Nobody needed it, so it was not read.
NOT_ASKED = Gap("not asked for")
