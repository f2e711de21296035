"""The command line: python -m tools.kubernetes build PROGRAM... | check | list.

Its own words go to stderr; stdout is a path for each program, in the order asked for. Exit codes:
0 they are all there, 1 one cannot be had, 2 wrong usage. `check` says whether a node can run here.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence

from tools.children import INTERRUPTED, Children
from tools.console import say
from tools.kubernetes import NODE_PROGRAMS
from tools.kubernetes.building import build
from tools.kubernetes.failure import BuildError
from tools.kubernetes.programs import MODULE, PROGRAMS, VERSION
from tools.provision import SetupError, cache_folder


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    if chosen.action == "list":
        for name in PROGRAMS:
            say(f"{name} {VERSION}")
        return 0
    if chosen.action == "check":
        lacking = lacks(shutil.which)
        if lacking:
            say(f"kubernetes: {lacking}", sys.stderr)
        return 1 if lacking else 0
    children = Children(MODULE)
    children.heed_endings()
    try:
        for path in build(children, chosen.program, cache_folder(os.environ)):
            say(str(path))
    except (BuildError, SetupError, OSError) as error:
        say(f"kubernetes: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        children.end_all()
        say("kubernetes: stopped; what is compiled so far is kept by Go", sys.stderr)
        return INTERRUPTED
    return 0


def lacks(which: Callable[[str], str | None]) -> str:
    """The first thing that a node needs and this machine has not, with the remedy."""
    for program, package in NODE_PROGRAMS.items():
        if which(program) is None:
            return f"{program} is missing: apt-get install {package}."
    return ""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    building = actions.add_parser("build", help="build what the cache lacks, print the paths")
    building.add_argument("program", nargs="+", choices=[*PROGRAMS])
    actions.add_parser("check", help="say what a node lacks on this machine")
    actions.add_parser("list", help="the programs that can be built")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
