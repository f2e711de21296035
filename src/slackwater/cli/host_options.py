"""Flags for the paths of the host, shared by every command that runs on a node."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from slackwater.observation.host import Roots

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Where an agent listens, by default; where it keeps what is void after a reboot (its ledger), and
#: what is not.
LISTEN = "127.0.0.1:10480"
STATE = "/run/slackwater"
LASTING = "/var/lib/slackwater"
_PATHS = (
    ("--cgroup-root", "/sys/fs/cgroup", "Where the host's cgroups are."),
    ("--proc-root", "/proc", "Where the host's /proc is."),
    ("--sys-root", "/sys", "Where the host's /sys is."),
    ("--host-root", "/", "Where the host's / is, for the kubelet's files and systemd's socket."),
    ("--kubepods", "", "The kubelet's tree below the cgroup root. Default: found."),
)


def path_option(flag: str, default: str, what: str) -> Callable[[_Command], _Command]:
    """A path, also as an environment variable: --cgroup-root is SLACKWATER_CGROUP_ROOT."""
    variable = "SLACKWATER_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(
        flag, default=default, envvar=variable, metavar="PATH", help=what,
        show_default=bool(default), show_envvar=True,
    )  # fmt: skip


def folder_options(command: _Command) -> _Command:
    lasting = (
        "Where settings, histories and a release by hand are kept across reboots. "
        f"Default: {LASTING}, with a --state of its own that folder."
    )
    command = path_option("--lasting", "", lasting)(command)
    state = "Where the ledger is kept, and the agent's socket for commands."
    return path_option("--state", STATE, state)(command)


def lasting_folder(state: str, lasting: str) -> str:
    """Whoever names one folder wants everything in it."""
    return lasting or (LASTING if state == STATE else state)


def kubelet_config_option(command: _Command) -> _Command:
    what = "This node's kubelet configuration below the host's /: its driver and cgroup root count."
    return path_option("--kubelet-config", "", what)(command)


def host_options(command: _Command) -> _Command:
    for flag, default, what in reversed(_PATHS):
        command = path_option(flag, default, what)(command)
    return command


def make_roots(
    cgroup_root: str, proc_root: str, sys_root: str, host_root: str, kubelet_config: str = ""
) -> Roots:
    paths = (cgroup_root, proc_root, sys_root, host_root, kubelet_config)
    return Roots(*(path.rstrip("/") for path in paths))
