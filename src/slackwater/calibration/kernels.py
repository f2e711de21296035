"""The work that a machine is measured by: small pieces of CPU-bound work, the same on every one.

Each is a function that makes the work from fixed data, done by C code of the standard library, so
that the interpreter's version matters little; `interpreter` is the exception, on purpose: branches
and scattered memory are what most services do.
"""

import hashlib
import math
import zlib
from collections.abc import Callable

import msgspec

#: One piece of work; returns something so that nothing can be left out.
Piece = Callable[[], object]

_MEBIBYTE = 1024 * 1024
#: Larger than the last-level cache of most machines, for one CPU's share of it.
_COPIED = 64 * _MEBIBYTE


class Kernel(msgspec.Struct, frozen=True):
    """`prepare` makes the data once and returns the piece of work."""

    name: str
    what: str
    prepare: Callable[[], Piece]


def _integer() -> Piece:
    base, modulus = 3**600 + 7, 2**2203 - 1
    return lambda: pow(base, 65537 * 257, modulus)


def _floating_point() -> Piece:
    values = [1.0 + place / 7 for place in range(4096)]
    return lambda: math.fsum(map(math.sqrt, values)) + math.dist(values, values[::-1])


def _memory() -> Piece:
    source, target = bytearray(_COPIED), bytearray(_COPIED)

    def copy() -> object:
        memoryview(target)[:] = source
        return target[-1]

    return copy


def _compression() -> Piece:
    words = [hashlib.sha256(str(place).encode()).hexdigest()[:9] for place in range(256)]
    text = " ".join(words[(place * place) % 256] for place in range(8192)).encode()
    return lambda: zlib.compress(text, 6)


def _cryptography() -> Piece:
    block = bytes(range(256)) * 1024
    return lambda: hashlib.sha512(block).digest()


def _interpreter() -> Piece:
    keys = [(place * 7919) % 10007 for place in range(4000)]

    def count() -> object:
        found: dict[int, int] = {}
        for key in keys:
            if key & 1:
                found[key] = found.get(key, 0) + 1
            else:
                found[key >> 1] = key
        return sum(found.values())

    return count


KERNELS: tuple[Kernel, ...] = (
    Kernel("integer", "modular powers of large integers", _integer),
    Kernel("floating-point", "square roots and sums of floating-point numbers", _floating_point),
    Kernel("memory", f"copies of {_COPIED // _MEBIBYTE} MiB", _memory),
    Kernel("compression", "zlib at level 6", _compression),
    Kernel("cryptography", "SHA-512", _cryptography),
    Kernel("interpreter", "branches and dictionaries in Python", _interpreter),
)
KERNEL = {kernel.name: kernel for kernel in KERNELS}
