"""Where built parts are kept between runs, and how two runs share that place.

A finished part appears by one rename, so what is there is whole; one builder at a time works in
it, and what a killed builder left is removed by the next.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_UNFINISHED = ".unfinished-"


@contextmanager
def sole_builder(cache: Path) -> Iterator[None]:
    """Wait until no other process builds in the cache, then keep others out."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob(_UNFINISHED + "*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


@contextmanager
def scratch_folder(cache: Path) -> Iterator[Path]:
    """A folder on the cache's own file system, so that its contents can be renamed into place."""
    folder = tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(finished: Path, final: Path) -> None:
    """Make a finished file or folder visible under its final name, all at once."""
    final.parent.mkdir(parents=True, exist_ok=True)
    os.rename(finished, final)
