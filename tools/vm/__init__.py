"""Real cgroup v2 kernels for the tests, in a QEMU virtual machine.

`python -m tools.vm run -- COMMAND` runs a command under a kernel of Debian's, with the caller's
own root file system below it at the same paths, and ends with the command's exit code. This
package owns fetching those kernels, booting them and bringing the exit code home. It installs
nothing and knows nothing about the tests that it runs.
"""

from collections.abc import Callable

# How long work shows that it goes on: one line, without its newline.
Say = Callable[[str], None]

# What `run` calls on the host or shows to the guest; tools/setup installs them.
DEBIAN_PACKAGES: tuple[str, ...] = (
    "qemu-system-x86",
    "busybox-static",
    "kmod",
    "zstd",
    "systemd",
)

# Above what pytest (0 to 5) and most programs return, below the shell's own codes (126 and up).
NO_RESULT = 125


class VmError(Exception):
    """No machine ran, or none came back: one sentence for the user, and what helps, if anything.

    A failing command is not a failure here: its exit code is a result like any other.
    """
