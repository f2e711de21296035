"""A machine as files in a folder of the test's own: cgroup root, procfs and the host's root.

Real files all through; only the magic numbers are told, as a test cannot mount a cgroup.
"""

import os

from slackwater.model.gap import Gap
from slackwater.observation.detection.mounts import CGROUP1_MAGIC, CGROUP2_MAGIC
from slackwater.observation.host import Roots

TMPFS_MAGIC = 0x01021994
NO_MOUNTS = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


class HostPicture:
    """One machine. Paths are relative to the folder unless they start at the host's root."""

    def __init__(self, top: object) -> None:
        self.top = os.path.realpath(str(top))
        self.roots = Roots(
            cgroup=f"{self.top}/cgroup",
            proc=f"{self.top}/proc",
            sys=f"{self.top}/sys",
            host=f"{self.top}/host",
        )
        self.magics: dict[str, int] = {}
        self.file("proc/self/mountinfo", NO_MOUNTS)
        self.folder("cgroup")

    def folder(self, path: str) -> str:
        full = f"{self.top}/{path}"
        os.makedirs(full, exist_ok=True)
        return full

    def file(self, path: str, content: str | bytes = b"") -> str:
        full = f"{self.top}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as opened:
            opened.write(content if isinstance(content, bytes) else content.encode())
        return full

    def kubelet_file(self, path: str, content: str | bytes) -> str:
        return self.file(f"host{path}", content)

    def process(self, pid: int, name: str, *arguments: str) -> None:
        self.file(f"proc/{pid}/comm", f"{name}\n")
        self.file(f"proc/{pid}/cmdline", "".join(f"{argument}\0" for argument in arguments))
        self.status(pid)

    def status(self, pid: int, user: int = 0, parent: int = 1) -> None:
        self.file(f"proc/{pid}/status", f"PPid:\t{parent}\nUid:\t{user}\t0\t0\t0\n")

    def mount_v1(self, name: str) -> str:
        full = self.folder(f"cgroup/{name}")
        self.magics[full] = CGROUP1_MAGIC
        return full

    def mount_v2(self, name: str, controllers: str) -> str:
        """Below the cgroup root, or at it where the name is empty."""
        full = self.folder(f"cgroup/{name}").rstrip("/")
        self.file(f"cgroup/{name}/cgroup.controllers", f"{controllers}\n")
        self.magics[full] = CGROUP2_MAGIC
        return full

    def magic_of(self, path: str) -> int | Gap:
        """statfs, with the mounts above: it follows symbolic links, and fails like it."""
        real = os.path.realpath(path)
        if not os.path.exists(real):
            return Gap(f"statfs of {path}: No such file or directory")
        return self.magics.get(real, TMPFS_MAGIC)
