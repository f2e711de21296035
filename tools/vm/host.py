"""What this machine lacks for running virtual machines.

Looks only; installs nothing.
"""

import platform
import shutil
from pathlib import Path

from tools.vm.debian import Series
from tools.vm.failure import VmError
from tools.vm.initramfs import static_busybox
from tools.vm.kernel import cached_kernel
from tools.vm.machine import Init

SYSTEMD = Path("/lib/systemd/systemd")

_TO_RUN = {"qemu-system-x86_64": "qemu-system-x86", "setpriv": "util-linux"}
_TO_BUILD = {"dpkg-deb": "dpkg", "depmod": "kmod"}
_TO_FETCH = ("apt-get", "apt-cache")


def require(series: Series, init: Init, cache: Path) -> None:
    """VmError that names the first thing missing and the remedy."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise VmError(
            f"Virtual machines need Linux on x86_64, and this is {platform.system()} on"
            f" {platform.machine()}: run these tests elsewhere."
        )
    _require_programs(_TO_RUN)
    static_busybox()
    if init is Init.SYSTEMD and not SYSTEMD.exists():
        raise VmError(f"{SYSTEMD} is missing: apt-get install systemd.")
    if cached_kernel(series, cache) is not None:
        return
    if not all(map(shutil.which, _TO_FETCH)):
        raise VmError(
            f"There is no Linux {series} kernel in {cache} and no apt-get to fetch one: copy that"
            " folder from a machine with Debian, after `python -m tools.vm prepare` there."
        )
    _require_programs(_TO_BUILD)


def _require_programs(programs: dict[str, str]) -> None:
    for program, package in programs.items():
        if shutil.which(program) is None:
            raise VmError(f"{program} is missing: apt-get install {package}.")
