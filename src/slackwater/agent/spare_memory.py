"""What a start used and a run does not: some of 32 MiB, measured with the endpoint's imports.

Owns two calls to the C library. Where there are none such (musl), the memory stays.
"""

#: malloc.h: how many arenas there may be.
_M_ARENA_MAX = -8


def share_one_arena() -> None:
    """Before any thread is there: glibc gives each its own arena, from which nothing comes back.
    With a cluster's ten threads one for all is 1.7 MiB less; none of them allocates much."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back_spare_memory() -> None:
    """glibc keeps what was freed, for the next malloc; the loop will not need so much again. What
    is in use by then stays for good: the cycle collector need not look at it again."""
    import ctypes
    import gc

    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
