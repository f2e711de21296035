"""Returns memory that only the agent's start needed: some of its 32 MiB.

By two calls to glibc. Where the C library has none of them (musl), the memory stays.
"""

#: malloc.h: how many arenas there may be.
_M_ARENA_MAX = -8


def share_one_arena() -> None:
    """Call it before the first thread: glibc gives each thread an arena of its own, and returns
    nothing from those. With a cluster's ten threads, which allocate little, one arena saves
    1.7 MiB."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back_spare_memory() -> None:
    """glibc keeps freed memory for the next malloc, but the loop will not need as much again. What
    is in use by now stays for good, so the cycle collector need not visit it again."""
    import ctypes
    import gc

    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
