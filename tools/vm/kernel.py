"""Kernels in the cache: an image to boot and the modules that belong to it.

A cached kernel of a series is used for as long as it is there, without a look at the network.
"""

import lzma
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from tools.cache import publish, scratch_folder, sole_builder
from tools.vm import Say, VmError

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


_KERNELS = "kernels"
_ELF_NAME = "vmlinux.elf"
_BZIMAGE_NAME = "vmlinuz"


@dataclass(frozen=True)
class Kernel:
    """One kernel, by its folder in the cache; the folder bears the package's name and version."""

    folder: Path

    @property
    def image(self) -> Path:
        elf = self.folder / _ELF_NAME
        return elf if elf.exists() else self.folder / _BZIMAGE_NAME

    @property
    def modules(self) -> Path:
        """lib/modules/RELEASE, with modules.dep in it."""
        return next((self.folder / "lib" / "modules").iterdir())

    @property
    def release(self) -> str:
        return self.modules.name


def cached_kernel(series: Series, cache: Path) -> Kernel | None:
    """The newest kernel of the series that is in the cache."""
    folders = (cache / _KERNELS).glob("linux-image-*")
    ours = [folder for folder in folders if in_series(folder.name, series)]
    newest = max(ours, key=lambda folder: folder.stat().st_mtime_ns, default=None)
    return None if newest is None else Kernel(newest)


def prepare_kernel(series: Series, cache: Path, say: Say) -> Kernel:
    """The cached kernel, else a new one from Debian's archive."""
    found = cached_kernel(series, cache)
    if found is not None:
        return found
    with sole_builder(cache):
        # Another process may have built it while this one waited.
        return cached_kernel(series, cache) or _build(series, cache, say)


def _build(series: Series, cache: Path, say: Say) -> Kernel:
    with scratch_folder(cache) as scratch:
        package_file = fetch_kernel(series, scratch, say)
        say(f"vm: unpacking {package_file.name}")
        tree = scratch / "tree"
        unpack(package_file, tree)
        kernel = scratch / "kernel"
        kernel.mkdir()
        _take_modules(tree, kernel)
        _take_image(tree, kernel)
        # NAME_VERSION_ARCHITECTURE.deb; a colon of the version is %3a there.
        final = cache / _KERNELS / package_file.stem.rpartition("_")[0]
        publish(kernel, final)
    return Kernel(final)


def _take_modules(tree: Path, kernel: Path) -> None:
    # Debian moves /lib below /usr from release 13 on.
    found = [*tree.glob("lib/modules/*"), *tree.glob("usr/lib/modules/*")]
    if len(found) != 1:
        raise VmError(f"The kernel package holds {len(found)} module folders where 1 is right.")
    target = kernel / "lib" / "modules" / found[0].name
    target.parent.mkdir(parents=True)
    shutil.move(found[0], target)
    index_modules(kernel, target.name)


def _take_image(tree: Path, kernel: Path) -> None:
    image = next(tree.glob("boot/vmlinuz-*"), None)
    if image is None:
        raise VmError("The kernel package holds no boot/vmlinuz.")
    elf = elf_kernel(image.read_bytes())
    if elf is None:
        # Slower to boot, and all there is without the zstd program.
        shutil.move(image, kernel / _BZIMAGE_NAME)
    else:
        (kernel / _ELF_NAME).write_bytes(elf)


_SIGNATURE_AT = 0x202
_SIGNATURE = b"HdrS"
_VERSION_AT = 0x206
_FIRST_VERSION_WITH_PAYLOAD = 0x208
_SETUP_SECTORS_AT = 0x1F1
# The boot protocol: "if this field contains 0, the real value is 4".
_SETUP_SECTORS_IF_ZERO = 4
_SECTOR = 512
_PAYLOAD_AT = 0x248
# The kernel's build appends the unpacked size, four bytes, to the compressed stream.
_SIZE_TRAILER = 4
_XZ = b"\xfd7zXZ\0"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ELF = b"\x7fELF"


def payload(image: bytes) -> bytes | None:
    """The compressed kernel with its size trailer; None where this is no such image."""
    if len(image) < _PAYLOAD_AT + 8 or image[_SIGNATURE_AT:_VERSION_AT] != _SIGNATURE:
        return None
    (version,) = struct.unpack_from("<H", image, _VERSION_AT)
    if version < _FIRST_VERSION_WITH_PAYLOAD:
        return None
    sectors = image[_SETUP_SECTORS_AT] or _SETUP_SECTORS_IF_ZERO
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_AT)
    start = (sectors + 1) * _SECTOR + offset
    found = image[start : start + length]
    return found if len(found) == length else None


def elf_kernel(image: bytes) -> bytes | None:
    """The ELF kernel; None where it cannot be had and the image itself must boot."""
    packed = payload(image)
    if packed is None:
        return None
    kernel = _unpack(packed)
    return kernel if kernel is not None and kernel.startswith(_ELF) else None


def _unpack(packed: bytes) -> bytes | None:
    if packed.startswith(_XZ):
        # A decompressor object leaves the size trailer unread; lzma.decompress would refuse it.
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(_ZSTD) and shutil.which("zstd"):
        stream = packed[:-_SIZE_TRAILER]
        done = subprocess.run(["zstd", "-dcq"], input=stream, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None
    return None


Dependencies = Mapping[str, tuple[str, ...]]


def module_name(path: str) -> str:
    """The name that the kernel uses: no folder, no suffix, "-" as "_"."""
    return PurePosixPath(path).name.partition(".")[0].replace("-", "_")


def parse_dependencies(modules_dep: str) -> dict[str, tuple[str, ...]]:
    """modules.dep as a table from a module's file to the files that it needs."""
    table: dict[str, tuple[str, ...]] = {}
    for line in modules_dep.splitlines():
        path, colon, needed = line.partition(":")
        if colon:
            table[path] = tuple(needed.split())
    return table


def insertion_order(
    wanted: Iterable[str], dependencies: Dependencies, built_in: Collection[str]
) -> tuple[str, ...]:
    """The files of the wanted modules and all that they need, each after its own needs.

    What one kernel has as a module another has built in (virtio_pci, in 6.12).
    """
    by_name = {module_name(path): path for path in dependencies}
    ordered: dict[str, None] = {}
    for name in wanted:
        if name in built_in:
            continue
        if name not in by_name:
            raise VmError(f"The kernel package has no module {name}: take another kernel.")
        _append(by_name[name], dependencies, ordered, above=())
    return tuple(ordered)


def _append(
    path: str, dependencies: Dependencies, ordered: dict[str, None], above: tuple[str, ...]
) -> None:
    if path in above:
        raise VmError(f"The module {path} needs itself: the kernel's modules.dep is broken.")
    for needed in dependencies.get(path, ()):
        _append(needed, dependencies, ordered, (*above, path))
    ordered.setdefault(path)


def module_bytes(path: Path) -> bytes:
    """The module as insmod takes it. Debian packs them from 6.12 on (.ko.xz), not in 6.1."""
    packed = path.read_bytes()
    return lzma.decompress(packed) if path.suffix == ".xz" else packed
