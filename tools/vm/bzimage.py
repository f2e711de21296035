"""Takes the ELF kernel out of a bzImage, so that QEMU can boot it by PVH.

That skips the BIOS and the kernel's own decompressor, which emulation makes slow (4 of 9 s of a
boot). Layout: Documentation/arch/x86/boot.rst in the kernel's source.
"""

import lzma
import shutil
import struct
import subprocess

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
