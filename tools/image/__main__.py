"""The command line: python -m tools.image build [--target STAGE] [--tag NAME] | check.

Its own words go to stderr; stdout is the archive's path, for `ctr images import`. Exit codes: 0 it
is there, 1 it cannot be had, 2 wrong usage. `check` says what a build lacks on this machine.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from slackwater.cli.install import IMAGE, MANAGER_IMAGE
from tools import debian
from tools.children import INTERRUPTED, Children
from tools.console import say
from tools.image.building import build
from tools.image.dockerfile import ImageError
from tools.provision import ROOT, SetupError, cache_folder

_PROGRAMS = {"debootstrap": "debootstrap", "unshare": "util-linux", "chroot": "coreutils"}
#: Debian keeps these where a person's own PATH does not look.
_SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
_MEGABYTE = 1_000_000
#: The Dockerfile's stage of the manager's image.
MANAGER = "manager"


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}"
    if lacking := lacks(os.geteuid(), shutil.which):
        say(f"image: {lacking}", sys.stderr)
        return 1
    if chosen.action == "check":
        return 0
    children = Children(ROOT)
    children.heed_endings()
    try:
        path = build(children, ROOT, image_cache(), chosen.tag, chosen.target)
    except (ImageError, SetupError, OSError) as error:
        say(f"image: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        children.end_all()
        say("image: stopped; finished steps are kept", sys.stderr)
        return INTERRUPTED
    say(f"image: {chosen.tag}, {path.stat().st_size // _MEGABYTE} MB", sys.stderr)
    say(str(path))
    return 0


def image_cache() -> Path:
    return cache_folder(os.environ) / "image"


def lacks(user: int, which: Callable[[str], str | None]) -> str:
    """The first thing that a build needs and this machine has not, with the remedy."""
    if user != 0:
        return "only root can build the image: it makes files of every owner, and mounts."
    return debian.lacks(_PROGRAMS, which)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    building = actions.add_parser("build", help="build what the cache lacks, print the path")
    building.add_argument("--tag", default="", help="the image's name, by default the chart's")
    building.add_argument("--target", default="", choices=["", MANAGER], help="the manager's image")
    actions.add_parser("check", help="say what a build lacks on this machine")
    chosen = parser.parse_args(arguments)
    if chosen.action == "build" and not chosen.tag:
        chosen.tag = MANAGER_IMAGE if chosen.target == MANAGER else IMAGE
    return chosen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
