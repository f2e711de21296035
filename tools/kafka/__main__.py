"""The command line: python -m tools.kafka fetch | check.

Its own words go to stderr; stdout is the folder of the broker's archives. Exit codes: 0 it is
there, 1 it cannot be had, 2 wrong usage. `check` says what a broker lacks on this machine.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from tools.children import INTERRUPTED, Children
from tools.console import say
from tools.debian import lacks
from tools.kafka import NEEDS
from tools.kafka.fetching import VERSION, KafkaError, fetch, kept_folder
from tools.provision import ROOT, SetupError, cache_folder


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    if lacking := lacks(NEEDS, shutil.which):
        say(f"kafka: {lacking}", sys.stderr)
        return 1
    return 0 if chosen.action == "check" else fetch_aloud()


def fetch_aloud() -> int:
    children = Children(ROOT)
    children.heed_endings()
    try:
        cache = cache_folder(os.environ)
        if not kept_folder(cache).exists():
            say(f"kafka: fetching Kafka {VERSION} with Maven", sys.stderr)
        say(str(fetch(children, cache)))
    except (KafkaError, SetupError, OSError) as error:
        say(f"kafka: {error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        children.end_all()
        say("kafka: stopped; nothing of it is kept", sys.stderr)
        return INTERRUPTED
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("fetch", help="fetch what the cache lacks, print the folder")
    actions.add_parser("check", help="say what a broker lacks on this machine")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
