"""A cluster's programs killed, paused and restarted: python -m tools.chaos --minutes 60 --seed N.

Makes a cluster with a real node of its own, installs the chart, and follows the seed's schedule.
Every ten minutes, and at the end, kernel, Node and policy objects have to be as wanted; after the
release everything is as it was. Exit code 0: it was; 1: something differs, or the cluster failed;
2: wrong usage.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.cluster.chaos_stage import ChaosStage
from tools.chaos.schedule import Step, steps, steps_within
from tools.cluster import CONTROL_PLANE_PROGRAMS, NODE_PROGRAMS
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import Node
from tools.cluster.places import first_free, sweep_dead
from tools.cluster.processes import ClusterError, find_programs
from tools.console import say
from tools.provision import SetupError, cache_folder

_CHECK_EVERY = 600.0
_MOST_MINUTES = 24 * 60


@contextmanager
def opened() -> Iterator[ChaosStage]:
    """A cluster of its own, with the chart; all of it goes, also after a failure."""
    programs = find_programs((*CONTROL_PLANE_PROGRAMS, *NODE_PROGRAMS), os.environ)
    clusters = cache_folder(os.environ) / "clusters"
    sweep_dead(clusters)
    with first_free(clusters, "chaos") as folder:
        plane = ControlPlane(folder, programs)
        node = Node(plane, programs)
        try:
            say("chaos: starting the control plane and a node", sys.stderr)
            plane.open()
            node.open()
            say("chaos: installing the chart", sys.stderr)
            stage = ChaosStage(plane, node)
            stage.open()
            stage.await_wanted()
            yield stage
        finally:
            node.close()
            plane.close()


def play(stage: ChaosStage, seed: int, seconds: float) -> int:
    """How many steps were played. AssertionError where something is not as wanted."""
    began = checked = time.monotonic()
    for played, step in enumerate(steps(seed)):
        now = time.monotonic()
        if now - began >= seconds:
            return played
        say(f"{now - began:7.0f} s  {step.words()}")
        stage.play(step)
        if time.monotonic() - checked >= _CHECK_EVERY:
            checked = check(stage)
    return 0


def check(stage: ChaosStage) -> float:
    """When it ended."""
    began = time.monotonic()
    stage.await_wanted()
    ended = time.monotonic()
    say(f"           everything is as wanted, {ended - began:.0f} s after the last step")
    return ended


def run(seed: int, seconds: float) -> int:
    try:
        with opened() as stage:
            played = play(stage, seed, seconds)
            check(stage)
            stage.want_everything()
            check(stage)
            stage.release()
    except AssertionError as error:
        say(f"chaos: seed {seed}: not as it should be: {error}")
        return 1
    except (ClusterError, SetupError, OSError) as error:
        say(f"chaos: {error}", sys.stderr)
        return 1
    say(f"chaos: seed {seed}: {played} steps, everything as wanted, and as before after a release")
    return 0


def minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes up to {_MOST_MINUTES}")
    return found


def planned(seed: int, seconds: float) -> list[Step]:
    return list(steps_within(seed, seconds))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--minutes", type=minutes, default=60.0, help="of faults; default 60")
    parser.add_argument("--seed", type=int, default=18, help="the same one does the same again")
    parser.add_argument(
        "--list", action="store_true", help="say what would be done, and do nothing"
    )
    said = parser.parse_args(arguments)
    if said.list:
        for step in planned(said.seed, 60 * said.minutes):
            say(step.words())
        return 0
    if os.geteuid() != 0:
        say("chaos: only root can make a node's namespaces and cgroups", sys.stderr)
        return 1
    return run(said.seed, 60 * said.minutes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
