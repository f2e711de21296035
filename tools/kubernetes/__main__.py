"""The command line: python -m tools.kubernetes build PROGRAM... | check PROGRAM... | list.

Its own words go to stderr; stdout is a path for each program, in the order asked for. Exit codes:
0 they are all there, 1 one cannot be had, 2 wrong usage. `check` says what they lack here.
KUBEBUILDER_ASSETS names a folder whose programs are taken as they are.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.children import INTERRUPTED, Children
from tools.console import say
from tools.debian import lacks
from tools.kubernetes import NODE_PROGRAMS
from tools.kubernetes.building import build
from tools.kubernetes.programs import PROGRAMS, BuildError
from tools.provision import ROOT, SetupError, cache_folder

READY_MADE = "KUBEBUILDER_ASSETS"


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    if chosen.action == "list":
        for name, module in PROGRAMS.items():
            say(f"{name} {module.version}")
        return 0
    if chosen.action == "check":
        lacking = lacks(NODE_PROGRAMS if "kubelet" in chosen.program else {}, shutil.which)
        if lacking:
            say(f"kubernetes: {lacking}", sys.stderr)
        return 1 if lacking else 0
    return build_aloud(chosen.program)


def build_aloud(names: Sequence[str]) -> int:
    children = Children(ROOT)
    children.heed_endings()
    try:
        for path in build(children, names, cache_folder(os.environ), ready_made(os.environ)):
            say(str(path))
    except (BuildError, SetupError, OSError) as error:
        say(f"kubernetes: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        children.end_all()
        say("kubernetes: stopped; what is compiled so far is kept by Go", sys.stderr)
        return INTERRUPTED
    return 0


def ready_made(environ: Mapping[str, str]) -> Path | None:
    """Where setup-envtest and others put etcd, kube-apiserver and kubectl."""
    named = environ.get(READY_MADE)
    return Path(named).absolute() if named else None


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    building = actions.add_parser("build", help="build what the cache lacks, print the paths")
    building.add_argument("program", nargs="+", choices=[*PROGRAMS])
    checking = actions.add_parser("check", help="say what the programs lack on this machine")
    checking.add_argument("program", nargs="+", choices=[*PROGRAMS])
    actions.add_parser("list", help="the programs that can be built")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
