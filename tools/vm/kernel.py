"""Kernels in the cache: an image to boot and the modules that belong to it.

A cached kernel of a series is used for as long as it is there, without a look at the network.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tools.vm import Say, bzimage, debian
from tools.vm.cache import publish, scratch_folder, sole_builder
from tools.vm.debian import Series
from tools.vm.failure import VmError

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
    ours = [folder for folder in folders if debian.in_series(folder.name, series)]
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
        package_file = debian.fetch_kernel(series, scratch, say)
        say(f"vm: unpacking {package_file.name}")
        tree = scratch / "tree"
        debian.unpack(package_file, tree)
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
    debian.index_modules(kernel, target.name)


def _take_image(tree: Path, kernel: Path) -> None:
    image = next(tree.glob("boot/vmlinuz-*"), None)
    if image is None:
        raise VmError("The kernel package holds no boot/vmlinuz.")
    elf = bzimage.elf_kernel(image.read_bytes())
    if elf is None:
        # Slower to boot, and all there is without the zstd program.
        shutil.move(image, kernel / _BZIMAGE_NAME)
    else:
        (kernel / _ELF_NAME).write_bytes(elf)
