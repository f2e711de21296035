"""python -m tools.fuzz --inputs 10000000: mutated inputs for every reader, before a release.

Exit code 1 if one broke its contract. The same seed makes the same inputs:
--replay NAME:SEED:NUMBER calls a reader with one of them again and shows it.
"""

import argparse
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType

from tools.fuzz.running import Finding, Reader, input_of, try_input
from tools.fuzz.table import readers

#: Of CPU time, for one input: work is counted too, but not inside a regular expression.
_MOST_SECONDS = 30.0
_MOST_MEMORY = 4 << 30
#: Findings of one reader that are shown; more are of the same kind.
_MOST_SHOWN = 20


class TooLongError(Exception):
    """A reader does not end."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="NAME", help="readers with this in the name")
    parser.add_argument("--replay", metavar="NAME:SEED:NUMBER")
    said = parser.parse_args(arguments)
    signal.signal(signal.SIGVTALRM, _stop)
    with tempfile.TemporaryDirectory(prefix="slackwater-fuzz-") as folder:
        table = readers(Path(folder))
        if said.replay:
            return _replay(table, said.replay)
        chosen = [each for each in table if said.only in each.name]
        if not chosen:
            parser.error(f"no reader has {said.only!r} in its name")
        return _run(chosen, said.inputs, said.seed)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooLongError(f"more than {_MOST_SECONDS:g} s of CPU time")


def _run(chosen: list[Reader], inputs: int, seed: int) -> int:
    each = -(-inputs // len(chosen))
    broken = 0
    for place, reader in enumerate(chosen, 1):
        found = _try_all(reader, seed, each)
        broken += bool(found)
        print(f"{place}/{len(chosen)} {reader.name}: {each} inputs, {len(found)} findings")
        for finding in found[:_MOST_SHOWN]:
            print(f"  {finding}")
        sys.stdout.flush()
    print(f"{each * len(chosen)} inputs of seed {seed}; readers that broke: {broken}")
    return 1 if broken else 0


def _try_all(reader: Reader, seed: int, inputs: int) -> list[Finding]:
    found: list[Finding] = []
    for number in range(inputs):
        signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_SECONDS)
        finding = try_input(reader, seed, number)
        if finding is not None:
            found.append(finding)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found


def _replay(table: tuple[Reader, ...], said: str) -> int:
    name, seed, number = said.rsplit(":", 2)
    reader = next(each for each in table if each.name == name)
    print(ascii(input_of(reader, int(seed), int(number))))
    finding = try_input(reader, int(seed), int(number))
    if finding is None:
        print("it keeps its contract")
        return 0
    if finding.error is not None:
        traceback.print_exception(finding.error)
    print(finding.told)
    return 1


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    sys.exit(main(sys.argv[1:]))
