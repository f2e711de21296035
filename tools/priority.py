"""Owns how much of the CPUs the sessions get that our tools start.

Where the scheduler groups tasks by session, niceness counts only within one, and a session has a
niceness of its own (sched(7), "The autogroup feature"). Elsewhere it has none, and nice(1) is all
there is. Refuses to fail: who may not ask for more goes on with what there is.
"""

from contextlib import suppress
from pathlib import Path

#: For virtual machines. By the host's clock, a guest that has to wait sees time lost; by its own,
#: it is one long thread that the end of a run would wait for.
AHEAD = -10
#: For what measures no time and fills whatever others leave.
BEHIND = 10


def set_session(pid: int, niceness: int) -> None:
    """Of the session that this process leads."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
