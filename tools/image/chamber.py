"""Runs a command in another root, as an engine's RUN does.

Owns the mounts that it needs, which end with the command: they are made in a mount namespace of its
own. What this machine needs to reach the network is shown at /run/slackwater-machine meanwhile, and
nothing of it stays in the root.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.children import Children
from tools.image.machine import MACHINE, Machine

_DEVICES = ("null", "zero", "full", "random", "urandom")
#: $1 is the root, $2 this machine's files; the rest is the command.
_SCRIPT = f"""
root=$1 machine=$2; shift 2
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in {" ".join(_DEVICES)}; do
  : > "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
for file in resolv.conf hosts; do
  if [ -e "/etc/$file" ]; then mount --bind "/etc/$file" "$root/etc/$file"; fi
done
mount -t tmpfs -o mode=755 tmpfs "$root{MACHINE}"
cp -R "$machine/." "$root{MACHINE}/"
exec chroot "$@"
"""
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")


@dataclass(frozen=True, slots=True)
class Order:
    """What is run, by whom (USER[:GROUP], empty for root), where, and with which environment."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str = "/"
    user: str = ""


def run_in_root(children: Children, root: Path, order: Order, machine: Machine) -> tuple[int, str]:
    """The exit code, and what was said."""
    made = _mount_points(root)
    try:
        return children.run_quietly(_command(root, order, machine), {})
    finally:
        for path in reversed(made):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()


def _command(root: Path, order: Order, machine: Machine) -> list[str]:
    settings = {**order.environment, **machine.environment}
    inside = ["env", "-i", *(f"{key}={value}" for key, value in settings.items())]
    inside += ["sh", "-c", f'cd {shlex.quote(order.folder)} && exec "$@"', "sh", *order.command]
    who = [f"--userspec={order.user}"] if order.user else []
    outside = [*_UNSHARE, "sh", "-ec", _SCRIPT, "sh", str(root), str(machine.folder)]
    return [*outside, *who, str(root), "/usr/bin/env", *inside[1:]]


def _mount_points(root: Path) -> list[Path]:
    """What a mount needs to stand on; those that were not there, to be removed again."""
    made = []
    for name in ("proc", "dev", MACHINE.strip("/")):
        path = root / name
        if not os.path.lexists(path):
            path.mkdir()
            made.append(path)
    for name in ("resolv.conf", "hosts"):
        path = root / "etc" / name
        if not os.path.lexists(path):
            path.touch()
            made.append(path)
    return made
