"""A file on the node as a source: what is read, and what is refused."""

import os
from pathlib import Path

import pytest

from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample
from slackwater.model.units import Micros
from slackwater.observation.probes.answers import Answer
from slackwater.observation.probes.node_file import FileTarget
from slackwater.observation.probes.sources import NodeFile, SourceTimes
from slackwater.observation.probes.text_format import LARGEST_ANSWER
from tests.unit.observation.probes.probe_world import HandClock, probe_set, unstamped

WANTED = frozenset({"depth"})
WALL = 1_700_000_000.0


def write(path: Path, text: str, age: float = 0.0) -> None:
    """As it should be done: whole, and renamed into place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.utime(new, (WALL - age, WALL - age))
    new.rename(path)


def target(folder: Path, name: str = "queue.prom") -> FileTarget:
    return FileTarget(NodeFile(str(folder), name), HandClock(), lambda: WALL)


def test_a_file_is_as_old_as_its_last_change(tmp_path: Path) -> None:
    write(tmp_path / "queue.prom", "# TYPE depth gauge\ndepth 3\n", age=5)
    found = target(tmp_path).ask(WANTED)
    assert found == Answer(Micros(HandClock().now - 5_000_000), {"depth": (Sample(3.0),)})


def test_a_clock_that_was_set_back_makes_no_future(tmp_path: Path) -> None:
    write(tmp_path / "queue.prom", "depth 3\n", age=-100)
    found = target(tmp_path).ask(WANTED)
    assert isinstance(found, Answer)
    assert found.at == HandClock().now


def test_rates_are_between_two_changes(tmp_path: Path) -> None:
    wanted = frozenset({"done:rate"})
    file = target(tmp_path)
    write(tmp_path / "queue.prom", "done 10\n", age=20)
    file.ask(wanted)
    write(tmp_path / "queue.prom", "done 30\n", age=10)
    first = file.ask(wanted)
    assert isinstance(first, Answer)
    assert first.metrics == {"done:rate": (Sample(2.0),)}
    assert file.ask(wanted) is first


def _link(folder: Path) -> None:
    (folder.parent / "secret.prom").write_text("depth 1\n")
    (folder / "queue.prom").symlink_to(folder.parent / "secret.prom")


@pytest.mark.parametrize(
    ("make", "clause"),
    [
        (lambda _folder: None, " cannot be read: No such file or directory"),
        (_link, " cannot be read: Too many levels of symbolic links"),
        (lambda folder: os.mkfifo(folder / "queue.prom"), ": it is not a regular file"),
        (lambda folder: (folder / "queue.prom").mkdir(), ": it is not a regular file"),
        (
            lambda folder: (folder / "queue.prom").write_bytes(b"#" * (LARGEST_ANSWER + 1)),
            ": the answer has more than 1 MiB",
        ),
        (
            lambda folder: (folder / "queue.prom").write_text("<html>\n"),
            ": the answer is not in Prometheus' text format: line 1 begins '<html>'",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, make: object, clause: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert callable(make)
    make(folder)
    assert target(folder).ask(WANTED) == Gap(f"{folder}/queue.prom{clause}")


@pytest.mark.parametrize("name", ["../secret.prom", "", ".", "..", "a/b"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    assert target(tmp_path, name).ask(WANTED) == Gap(f"{name!r} is not a file's name")


def test_a_name_that_no_file_has(tmp_path: Path) -> None:
    found = target(tmp_path, "a\0b").ask(WANTED)
    assert isinstance(found, Gap)
    assert found.reason.endswith("cannot be read: no such path can exist")


def test_a_writer_that_died_is_noticed(tmp_path: Path) -> None:
    """Its file is there, and too old."""
    path = tmp_path / "queue.prom"
    path.write_text("depth 3\n")
    clock = HandClock()
    probes = probe_set(clock)
    times = SourceTimes(max_age=60.0)
    probes.update({"EnsuranceMetric/queue": NodeFile(str(tmp_path), "queue.prom", times)}, ())
    key = MetricKey("depth", "EnsuranceMetric/queue")
    probes.samples(key, clock())
    probes.ask_due()
    assert unstamped(probes.samples(key, clock())) == (Sample(3.0),)
    for _ in range(70):
        clock.pass_seconds(1)
        probes.samples(key, clock())
        probes.ask_due()
    assert probes.samples(key, clock()) == Gap("the last answer is 1 min old")
