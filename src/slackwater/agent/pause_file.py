"""That everything was released by hand, noted so that no restart of the agent ends it.

One small file in the folder that outlives reboots, or in the other one where that cannot be
written. Whoever removes it (`slackwater resume`) ends the pause.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from slackwater.model.gap import Gap

FILE = "released-by-hand"


class PauseFile:
    """Guards the file, in the first of the folders that takes it."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._paths = tuple(dict.fromkeys(os.path.join(folder, FILE) for folder in folders))

    def is_there(self) -> bool:
        return any(os.path.lexists(path) for path in self._paths)

    def write(self) -> Gap | None:
        """A Gap where no folder takes it: then only this process is paused."""
        problem = ""
        for path in self._paths:
            try:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
                os.close(os.open(path, flags, 0o600))
            except OSError as error:
                problem = problem or f"{path} cannot be written: {error.strerror}"
            else:
                return None
        return Gap(f"{problem}; a restart will end the pause")

    def remove(self) -> Gap | None:
        """A Gap where one of them stays."""
        for path in self._paths:
            try:
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(path)
            except OSError as error:
                return Gap(f"{path} cannot be removed: {error.strerror}")
        return None
