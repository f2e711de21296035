"""Kernel modules: in which order to insert them, and their bytes.

Owns the reading of depmod's modules.dep. Loads nothing.
"""

import lzma
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

from tools.vm.failure import VmError

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
