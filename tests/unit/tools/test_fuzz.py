"""Mutated inputs for every reader; that no reader is missing; and what counts as a finding."""

from pathlib import Path

import pytest

from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem
from tools.fuzz.__main__ import main
from tools.fuzz.mutation import LARGEST_INPUT, Mutator, size_of
from tools.fuzz.running import Reader, input_of, run, try_input
from tools.fuzz.table import EXEMPT, readers, reading_functions

SEED = 1
PARTS = 8
#: 10^5 in all.
INPUTS = 100_000


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_mutated_input_breaks_a_reader(tmp_path: Path, part: int) -> None:
    table = readers(tmp_path)
    each = range(-(-INPUTS // len(table)))
    broken = [str(found) for reader in table[part::PARTS] for found in run(reader, SEED, each)]
    assert broken[:20] == []


def test_every_seed_can_be_read(tmp_path: Path) -> None:
    """Else its mutations test nothing but the first check."""
    refused = {
        f"{reader.name}: {result.reason if isinstance(result, Gap) else result}"
        for reader in readers(tmp_path)
        if reader.make not in (Mutator.encoded, Mutator.lines)
        for seed in reader.seeds
        if isinstance(result := _called(reader, seed), Gap | InvalidError)
    }
    assert refused == set()


def _called(reader: Reader, seed: object) -> object:
    try:
        return reader.call(seed)
    except reader.contract as error:
        return error


def test_every_reading_function_is_in_the_table_or_exempt(tmp_path: Path) -> None:
    covered = {name for reader in readers(tmp_path) for name in reader.covers}
    functions = reading_functions()
    assert functions - covered - EXEMPT.keys() == set(), "add a row, or a reason to EXEMPT"
    assert (covered | EXEMPT.keys()) - functions == set(), "there is no such function any more"
    assert covered & EXEMPT.keys() == set()


def test_rows_have_names_of_their_own(tmp_path: Path) -> None:
    names = [reader.name for reader in readers(tmp_path)]
    assert len(set(names)) == len(names)


def test_a_seed_gives_the_same_inputs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for one, other in zip(readers(tmp_path / "a"), readers(tmp_path / "b"), strict=True):
        if one.name != "checkpoint":  # its seed is a file that was written a moment ago
            sizes = [[size_of(input_of(each, 5, n)) for n in range(9)] for each in (one, other)]
            assert sizes[0] == sizes[1], one.name


def test_inputs_are_bounded(tmp_path: Path) -> None:
    for reader in readers(tmp_path):
        for number in range(20):
            value = input_of(reader, 6, number)
            if isinstance(value, str | bytes):
                assert len(value) <= LARGEST_INPUT


def reader_of(call: object, *contract: type[BaseException]) -> Reader:
    return Reader("r", call, ("seed 12",), Mutator.text, (), contract)  # type: ignore[arg-type]


def refuse(text: str) -> object:
    raise InvalidError(Problem("x", text, "short"))


def work(_text: str) -> object:
    for _ in range(200_000):
        len("")
    return None


@pytest.mark.parametrize(
    ("call", "contract", "told"),
    [
        (len, (), None),
        (lambda text: {}[text], (KeyError,), None),
        (lambda text: {}[text], (), "KeyError"),
        (lambda _: refuse("a"), (InvalidError,), None),
        (lambda _: refuse("a\nb"), (InvalidError,), "several lines"),
        (lambda _: refuse("\ud800"), (InvalidError,), "cannot be printed"),
        (lambda _: refuse("a" * 20_000), (InvalidError,), "a sentence of 20"),
        (lambda _: Gap("a\nb"), (), "several lines"),
        (work, (), "calls for an input of"),
        (lambda _: bytes(64 << 20), (), "bytes of memory for an input of"),
    ],
)
def test_what_is_a_finding(
    call: object, contract: tuple[type[BaseException], ...], told: str | None
) -> None:
    found = try_input(reader_of(call, *contract), SEED, 0)
    if told is None:
        assert found is None
    else:
        assert found is not None
        assert told in str(found)
        assert "--replay r:1:0" in str(found)


def test_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inputs", "20", "--only", "duration"]) == 0
    assert "1/1 duration: 20 inputs, 0 findings" in capsys.readouterr().out
    assert main(["--replay", "duration:1:3"]) == 0
    assert "it keeps its contract" in capsys.readouterr().out
