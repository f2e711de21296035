"""Stand-ins for what tools.vm works on: programs, kernels, images. Tests nothing itself."""

import struct
from pathlib import Path

KERNEL = b"\x7fELF" + b"kernel" * 200


def bz_image(
    payload: bytes, *, sectors: int = 27, version: int = 0x20F, before: int = 100
) -> bytes:
    """A boot image in the layout of the kernel's boot protocol."""
    start = ((sectors or 4) + 1) * 512
    image = bytearray(start + before) + payload
    image[0x1F1] = sectors
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, version)
    struct.pack_into("<II", image, 0x248, before, len(payload))
    return bytes(image) + b"after the payload"


def with_size(packed: bytes) -> bytes:
    """The kernel's build appends the unpacked size to the compressed stream."""
    return packed + struct.pack("<I", len(KERNEL))


def stand_in(folder: Path, name: str, script: str) -> None:
    """A program of that name which is a shell script."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def make_kernel(cache: Path, package: str, *, image: str = "vmlinux.elf") -> Path:
    """A kernel in the cache, with an empty image and one folder of modules."""
    folder = cache / "kernels" / package
    (folder / "lib" / "modules" / "6.12.1-test").mkdir(parents=True)
    (folder / image).touch()
    return folder


def elf_program(*segments: int) -> bytes:
    """The head of a 64-bit ELF program with segments of these kinds."""
    header = bytearray(64)
    header[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, len(segments))
    return bytes(header) + b"".join(struct.pack("<I52x", kind) for kind in segments)


def read_newc(data: bytes) -> list[tuple[str, int, bytes]]:
    """An independent reader: (name, mode, data) of each member, the trailer included."""
    members, at = [], 0
    while at < len(data):
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        body = (at + 110 + name_size + 3) // 4 * 4
        members.append((name[:-1].decode(), mode, data[body : body + size]))
        at = (body + size + 3) // 4 * 4
    return members


def no_words(_line: str) -> None:
    """A Say for tests that do not listen."""
