"""The command line: python -m tools.cluster run|up|load|down|status|check [--name NAME] ...

`run` is a cluster in the foreground until Ctrl-C; `up` leaves one running and prints where its
kubeconfig is; `load` gives an image to its node; `down` ends it; `status` lists what runs; `check`
says what a node lacks on this machine. Words go to stderr, results to stdout. Exit codes: 0 done,
1 it did not work, 2 wrong usage.
"""

import argparse
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Never

from tools.children import INTERRUPTED, Children
from tools.cluster import NODE_NEEDS
from tools.cluster.places import sole_owner
from tools.cluster.playground import (
    Cluster,
    Wish,
    advice,
    end,
    load,
    opened,
    running_clusters,
    start_behind,
)
from tools.cluster.processes import ClusterError
from tools.console import say
from tools.debian import lacks
from tools.provision import ROOT, SetupError, cache_folder

USAGE = 2
#: It becomes a part of paths, cgroups and a socket's name.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")
#: The words by which `up` knows that the one behind is complete.
READY = "cluster: ready"
_MOST_PLAYED = 5000
_LOOK_SECONDS = 1.0


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    try:
        clusters = cache_folder(os.environ) / "clusters"
        match chosen.action:
            case "run":
                return run(clusters / chosen.name, wish_of(chosen))
            case "up":
                say(str(start_behind(clusters / chosen.name, options_of(chosen), READY)))
            case "down":
                end(clusters / chosen.name)
            case "load":
                load(clusters / chosen.name, Path(chosen.archive))
            case "check":
                return check(chosen.program)
            case _:
                for line in running_clusters(clusters):
                    say(line)
    except (ClusterError, SetupError, OSError) as error:
        say(f"cluster: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def run(folder: Path, wish: Wish) -> int:
    """Until Ctrl-C, or SIGTERM, which is how `down` says it."""
    children = Children(ROOT)
    children.heed_endings()
    ready = False
    try:
        with sole_owner(folder), opened(folder, wish, children) as cluster:
            ready = True
            for line in advice(cluster.plane, wish):
                say(line)
            say(f"{READY}; Ctrl-C ends it", sys.stderr)
            watch(cluster)
    except KeyboardInterrupt:
        children.end_all()
        say("cluster: ended, nothing is left of it", sys.stderr)
        return 0 if ready else INTERRUPTED


def watch(cluster: Cluster) -> Never:
    """Tells once of each program that ended by itself; the others go on."""
    told: set[str] = set()
    while True:
        time.sleep(_LOOK_SECONDS)
        for name in set(cluster.ended()) - told:
            told.add(name)
            say(f"cluster: {name} ended by itself; {cluster.log(name)} tells why", sys.stderr)


def check(programs: Sequence[str]) -> int:
    lacking = lacks(NODE_NEEDS if "kubelet" in programs else {}, shutil.which)
    if lacking:
        say(f"cluster: {lacking}", sys.stderr)
    return 1 if lacking else 0


def options_of(chosen: argparse.Namespace) -> list[str]:
    options = ["--name", chosen.name, "--kwok", str(chosen.kwok)]
    return [*options, *(["--node"] if chosen.node else [])]


def wish_of(chosen: argparse.Namespace) -> Wish:
    return Wish(chosen.name, 1 if chosen.node else 0, chosen.kwok)


def name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{shlex.quote(text)} is not 1 to 20 small letters, digits and dashes"
        )
    return text


def played(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_PLAYED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST_PLAYED}")
    return int(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    helps = {
        "run": "a cluster in the foreground",
        "up": "a cluster in the background; prints its kubeconfig",
        "load": "an image archive into its node",
        "down": "end it",
        "status": "what runs",
        "check": "say what the programs lack on this machine",
    }
    for action, what in helps.items():
        made = actions.add_parser(action, help=what)
        if action == "check":
            made.add_argument("program", nargs="+")
        elif action != "status":
            made.add_argument(
                "--name", type=name, default="default", help="which one; several may run"
            )
        if action == "load":
            made.add_argument("archive", help="a docker or OCI archive")
        if action in ("run", "up"):
            made.add_argument("--node", action="store_true", help="with a real kubelet")
            made.add_argument("--kwok", type=played, default=0, metavar="N", help="played nodes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
