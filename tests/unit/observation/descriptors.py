"""This process's descriptors: how many are open, and fewer of them for a while."""

import contextlib
import os
import resource
from collections.abc import Iterator


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - 1  # the listing has one itself


@contextlib.contextmanager
def descriptor_limit(soft: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
