"""The initramfs: busybox, the modules for 9p and overlay, and this package's guest files.

One archive serves both inits; the kernel's command line chooses. Its name holds a hash of all
that goes into it, so that a changed script is a new archive and never a stale one.
"""

import hashlib
import shutil
import stat
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.cache import publish, scratch_folder, sole_builder
from tools.vm import Say, VmError
from tools.vm.kernel import Kernel, insertion_order, module_bytes, module_name, parse_dependencies

_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"
_ALIGNMENT = 4


@dataclass(frozen=True)
class Entry:
    """One member; `mode` holds the file type too, as in stat(2)."""

    name: str
    mode: int
    data: bytes = b""


def directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def executable(name: str, data: bytes) -> Entry:
    return Entry(name, stat.S_IFREG | 0o755, data)


def regular(name: str, data: bytes) -> Entry:
    return Entry(name, stat.S_IFREG | 0o644, data)


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive's bytes; equal entries give equal bytes, so that a hash can name them."""
    members = [*entries, Entry(_TRAILER, 0)]
    return b"".join(_member(inode, entry) for inode, entry in enumerate(members, start=1))


def _member(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # inode, mode, uid, gid, links, mtime, size, device major and minor, rdev major and minor,
    # name size, checksum (unused in this variant)
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)


GUEST_FILES = Path(__file__).parent / "guest_files"
WANTED_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")

_FOLDERS = ("bin", "dev", "proc", "sys", "lower", "upper", "new", "modules", "guest")
# How much of the hash is enough to tell apart a handful of archives of one user.
_HASH_DIGITS = 16
_ELF_64 = b"\x7fELF\x02"
_ELF_HEADER_SIZE = 64
_INTERPRETER_SEGMENT = 3


def prepare_initramfs(kernel: Kernel, cache: Path, say: Say) -> Path:
    """The archive for this kernel, built if the cache has none that is current."""
    busybox = static_busybox()
    key = _fingerprint(busybox)
    final = cache / "initramfs" / f"{kernel.folder.name}-{key}.cpio"
    if final.exists():
        return final
    with sole_builder(cache):
        if not final.exists():
            say(f"vm: building the initramfs for {kernel.release}")
            _build(kernel, busybox, final, cache)
    return final


def static_busybox() -> bytes:
    """The host's busybox; it must need no library, as the initramfs has none."""
    path = shutil.which("busybox")
    if path is None:
        raise VmError("busybox is missing: apt-get install busybox-static.")
    program = Path(path).read_bytes()
    if needs_libraries(program):
        raise VmError(f"{path} needs shared libraries: apt-get install busybox-static.")
    return program


def needs_libraries(elf: bytes) -> bool:
    """Whether a program asks for a dynamic loader (has a PT_INTERP segment), or is no ELF-64."""
    if len(elf) < _ELF_HEADER_SIZE or not elf.startswith(_ELF_64):
        return True
    (table,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    kinds = (struct.unpack_from("<I", elf, table + size * index)[0] for index in range(count))
    return _INTERPRETER_SEGMENT in kinds


def _fingerprint(busybox: bytes) -> str:
    hashed = hashlib.sha256(" ".join((*_FOLDERS, *WANTED_MODULES)).encode())
    hashed.update(hashlib.sha256(busybox).digest())
    for file in sorted(GUEST_FILES.iterdir()):
        hashed.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return hashed.hexdigest()[:_HASH_DIGITS]


def _build(kernel: Kernel, busybox: bytes, final: Path, cache: Path) -> None:
    with scratch_folder(cache) as scratch:
        unfinished = scratch / "initramfs"
        unfinished.write_bytes(archive(_entries(kernel, busybox)))
        publish(unfinished, final)


def _entries(kernel: Kernel, busybox: bytes) -> Iterator[Entry]:
    yield from map(directory, _FOLDERS)
    yield executable("bin/busybox", busybox)
    yield executable("init", (GUEST_FILES / "init").read_bytes())
    for file in sorted(GUEST_FILES.iterdir()):
        if file.name != "init":
            yield regular(f"guest/{file.name}", file.read_bytes())
    dependencies = parse_dependencies((kernel.modules / "modules.dep").read_text())
    builtin = (kernel.modules / "modules.builtin").read_text().splitlines()
    order = insertion_order(WANTED_MODULES, dependencies, {*map(module_name, builtin)})
    # Numbered, so that the shell's own sorting of a glob is the order of insertion.
    for number, path in enumerate(order):
        yield regular(f"modules/{number:02}.ko", module_bytes(kernel.modules / path))
