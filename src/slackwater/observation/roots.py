"""Where the host's file systems are seen: a container mounts them elsewhere, a test makes some."""

import msgspec


class Roots(msgspec.Struct, frozen=True):
    """Absolute directories without a trailing slash; `host` is "" for the machine's own root."""

    cgroup: str = "/sys/fs/cgroup"
    proc: str = "/proc"
    sys: str = "/sys"
    host: str = ""
    #: The kubelet's configuration file by its path on the host; "" where none was named.
    kubelet_config: str = ""
