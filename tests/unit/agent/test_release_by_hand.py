"""A release by hand lasts until somebody ends it, whatever becomes of the process."""

import threading
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from slackwater.agent.pause import RELEASED_BY_HAND
from slackwater.agent.pause_file import FILE, PauseFile
from slackwater.agent.program import Agent
from slackwater.cli.resume import resume
from slackwater.model.gap import Gap
from slackwater.record.journal import TickRecord
from tests.unit.agent.test_program import Bench, at


def started(pause_file: PauseFile) -> Bench:
    """As after a start of the process."""
    bench = Bench()
    dependencies = msgspec.structs.replace(bench.agent._dependencies, pause_file=pause_file)
    bench.agent = Agent(dependencies, bench.lines.append)
    assert bench.agent.start(at(0)) == ()
    return bench


def release(bench: Bench, second: float) -> None:
    """As the endpoint's thread asks for it."""
    asking = threading.Thread(target=bench.shared.request_release, args=(300.0,))
    asking.start()
    while not bench.shared.is_release_requested():
        pass
    bench.agent.once(at(second))
    asking.join()


def decides(bench: Bench, second: float) -> bool:
    found = bench.agent.once(at(second))
    assert isinstance(found, TickRecord)
    return bool(found.inputs.policies)


def test_a_restart_does_not_end_it(tmp_path: Path) -> None:
    pause_file = PauseFile((str(tmp_path),))
    first = started(pause_file)
    assert decides(first, 1)
    release(first, 2)
    assert not decides(first, 3)
    second = started(pause_file)
    assert not decides(second, 1)
    assert second.shared.last_round.paused == RELEASED_BY_HAND
    assert second.told("paused") == [RELEASED_BY_HAND]


def test_resume_ends_it_without_a_restart(tmp_path: Path) -> None:
    bench = started(PauseFile((str(tmp_path),)))
    release(bench, 1)
    done = CliRunner().invoke(resume, ["--state", str(tmp_path)])
    assert (done.exit_code, "decides again" in done.output) == (0, True)
    assert decides(bench, 2)
    assert bench.shared.last_round.paused == ""
    assert bench.told("resumed") == ["told to"]
    again = CliRunner().invoke(resume, ["--state", str(tmp_path)])
    assert (again.exit_code, "nothing was released" in again.output) == (0, True)


def test_where_it_cannot_be_noted_the_process_is_paused_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = started(PauseFile((str(tmp_path / "file" / "below"),)))
    release(bench, 1)
    assert not decides(bench, 2), "nobody removed a note that was never there"
    [said] = bench.told("pause")
    assert "a restart will end the pause" in said


def test_the_second_folder_is_for_a_first_that_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = PauseFile((str(tmp_path / "file" / "below"), str(tmp_path)))
    assert not found.is_there()
    assert found.write() is None
    assert (tmp_path / FILE).exists()
    assert found.is_there()
    assert found.remove() is None
    assert not found.is_there()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert isinstance(PauseFile((str(tmp_path),)).write(), Gap)
    assert not (tmp_path / "elsewhere").exists()


def test_one_that_cannot_be_removed_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    done = CliRunner().invoke(resume, ["--state", str(tmp_path)])
    assert done.exit_code == 1
    assert "cannot be removed" in done.output


@pytest.mark.parametrize("folders", [(), ("a", "a")])
def test_folders(folders: tuple[str, ...]) -> None:
    assert not PauseFile(folders).is_there()
