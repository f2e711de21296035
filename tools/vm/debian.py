"""Kernel packages of Debian: which is current, fetching it, unpacking it.

The only module that uses the network, through apt and its verified sources. Never installs: the
package's own scripts would build an initrd and change the host's boot files.
"""

import re
import subprocess
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from tools.vm import Say
from tools.vm.failure import VmError

_POLL_SECONDS = 0.1
_PROGRESS_INTERVAL_SECONDS = 5.0
_MEGABYTE = 1_000_000
_DEPENDS = re.compile(r"^[ |]*Depends: (linux-image-(\d+\.\d+)\.\S+-amd64)$", re.MULTILINE)


class Series(StrEnum):
    """The kernels under test: Debian 12's own, and the one of its successor."""

    V6_1 = "6.1"
    V6_12 = "6.12"


# Metapackages that may lead to the series, best first; the last release's 6.12 is the next one's
# default. The cloud kernels are no choice: they are built without 9p.
_METAPACKAGES: dict[Series, tuple[str, ...]] = {
    Series.V6_1: ("linux-image-amd64", "linux-image-6.1-amd64"),
    Series.V6_12: ("linux-image-6.12-amd64", "linux-image-amd64"),
}


def in_series(package: str, series: Series) -> bool:
    """Whether a concrete package's name is of the series (6.1.x is not of 6.12)."""
    return package.startswith(f"linux-image-{series}.")


def concrete_package(apt_cache_depends: str, series: Series) -> str | None:
    """The package of the series that `apt-cache depends METAPACKAGE` names."""
    found = (match.group(1) for match in _DEPENDS.finditer(apt_cache_depends))
    return next((package for package in found if in_series(package, series)), None)


def fetch_kernel(series: Series, folder: Path, say: Say) -> Path:
    """Download the current kernel package of the series into the folder."""
    package = _look_up(series)
    if package is not None and _download(package, folder, say):
        return _downloaded(package, folder)
    # The lists are missing, or older than the archive, which has dropped what they name.
    say("vm: refreshing the package lists (apt-get update)")
    _run(["apt-get", "update", "-q"])
    package = _look_up(series)
    if package is None:
        raise VmError(
            f"apt knows no Linux {series} kernel: its sources must include Debian's main archive."
        )
    if not _download(package, folder, say):
        raise VmError(f"apt-get could not download {package}: check its network and sources.")
    return _downloaded(package, folder)


def unpack(package_file: Path, folder: Path) -> None:
    done = _run(["dpkg-deb", "-x", str(package_file), str(folder)])
    if done.returncode != 0:
        raise VmError(f"dpkg-deb could not unpack {package_file.name}: {_last_line(done)}.")


def index_modules(root: Path, release: str) -> None:
    """Write modules.dep, which Debian makes at installation and does not ship."""
    done = _run(["depmod", "-b", str(root), release])
    if done.returncode != 0:
        raise VmError(f"depmod could not index the modules of {release}: {_last_line(done)}.")


def _look_up(series: Series) -> str | None:
    for metapackage in _METAPACKAGES[series]:
        package = concrete_package(_run(["apt-cache", "depends", metapackage]).stdout, series)
        if package is not None:
            return package
    return None


def _download(package: str, folder: Path, say: Say) -> bool:
    size = _size_in_bytes(package)
    say(f"vm: fetching {package} ({size // _MEGABYTE} MB)")
    # root's downloads are otherwise handed to a user who may not enter the cache folder.
    command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package]
    reported = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as apt:
        try:
            while apt.poll() is None:
                time.sleep(_POLL_SECONDS)
                if time.monotonic() - reported >= _PROGRESS_INTERVAL_SECONDS:
                    reported = time.monotonic()
                    arrived = sum(file.stat().st_size for file in folder.iterdir())
                    say(f"vm: {arrived // _MEGABYTE} of {size // _MEGABYTE} MB")
        finally:
            apt.terminate()
        problem = apt.stderr.read().strip() if apt.stderr else ""
    if apt.returncode != 0:
        say(f"vm: {problem}")
    return apt.returncode == 0


def _downloaded(package: str, folder: Path) -> Path:
    return next(folder.glob(f"{package}_*.deb"))


def _size_in_bytes(package: str) -> int:
    shown = _run(["apt-cache", "show", "--no-all-versions", package]).stdout
    found = re.search(r"^Size: (\d+)$", shown, re.MULTILINE)
    return int(found.group(1)) if found else 0


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # The C locale, because apt translates the words that are parsed above.
    translated = ["env", "LC_ALL=C", *command]
    return subprocess.run(translated, capture_output=True, text=True, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
