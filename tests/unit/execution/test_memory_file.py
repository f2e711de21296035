"""What a policy has learnt survives the agent, and a broken file costs no more than that."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.execution.memory_file import MemoryFiles
from slackwater.model.decision import Because, RuleState
from slackwater.model.units import Micros
from slackwater.policies import oversold, qos_level
from slackwater.policies.ensurance import watermark_relief
from slackwater.policies.ensurance.avoidance import ThrottledPod
from slackwater.policies.ensurance.counting import RuleMemory
from slackwater.policies.ensurance.watermark_relief import WatermarkMemory
from slackwater.policies.oversold_offer import OfferMemory, UseHistory
from slackwater.signals import DecayingHistogram

MINUTE = 60_000_000
NOW = 1_800_000_000


def learnt() -> oversold.OversoldMemory:
    minutes = DecayingHistogram(10)
    for value in (100, 2_000, 2_100, 64_000):
        minutes = minutes.add(value, Micros(MINUTE), Micros(720 * MINUTE))
    running = UseHistory(minutes, Micros(5), 700, 3)
    return oversold.OversoldMemory(OfferMemory(running, claim=7, offered=1, exceeded=3))


@pytest.fixture
def files(tmp_path: Path) -> MemoryFiles:
    return MemoryFiles(str(tmp_path), (oversold.POLICY, qos_level.POLICY), lambda: NOW)


def test_histories_come_back(files: MemoryFiles, tmp_path: Path) -> None:
    assert files.load() == ({}, ())
    assert files.save({"oversold": learnt(), "qos_level": object()}) == ""
    found, problems = files.load()
    assert problems == ()
    memory: Any = found["oversold"]
    assert memory.saved_at == NOW
    assert memory.cpu.history.minutes == learnt().cpu.history.minutes
    assert (memory.cpu.claim, memory.cpu.history.since) == (None, None)
    assert [each.name for each in tmp_path.iterdir()] == ["oversold.json"]
    assert (tmp_path / "oversold.json").stat().st_size < 4096


def test_it_is_written_once_a_minute(files: MemoryFiles, tmp_path: Path) -> None:
    path = tmp_path / "oversold.json"
    for second in (1, 30, 60):
        assert files.offer({"oversold": learnt()}, Micros(second * 1_000_000)) == ""
        assert not path.exists()
    files.offer({"oversold": learnt()}, Micros(61_000_000))
    assert path.exists()


THROTTLED = WatermarkMemory(
    {"NodeQOS/q/r": RuleMemory("cpu throttle", state=RuleState.COOLING, triggered_at=Micros(7))},
    {"1": ThrottledPod(("NodeQOS/q/r",), Because("a", "b", "c"))},
)


def standing(folder: Path, boot: str = "this boot") -> MemoryFiles:
    return MemoryFiles(str(folder), (watermark_relief.POLICY,), lambda: NOW, boot)


def test_what_stands_is_written_when_it_changes_and_not_otherwise(tmp_path: Path) -> None:
    path, files = tmp_path / "watermark_relief.json", standing(tmp_path)
    files.offer({"watermark_relief": WatermarkMemory(ticks=9)}, Micros(1))
    assert not path.exists()
    files.offer({"watermark_relief": THROTTLED}, Micros(2))
    first = path.stat().st_ino
    ticking = msgspec.structs.replace(THROTTLED, ticks=5, watches=False)
    files.offer({"watermark_relief": ticking}, Micros(3))
    assert path.stat().st_ino == first
    assert standing(tmp_path).load() == ({"watermark_relief": THROTTLED}, ())
    files.offer({"watermark_relief": WatermarkMemory()}, Micros(4))
    assert standing(tmp_path).load() == ({"watermark_relief": WatermarkMemory()}, ())


def test_what_stood_before_the_boot_is_over(tmp_path: Path) -> None:
    standing(tmp_path).save({"watermark_relief": THROTTLED})
    assert standing(tmp_path, "another").load() == ({}, ())


@pytest.mark.parametrize("loaded", [True, False])
def test_what_was_released_is_forgotten(tmp_path: Path, *, loaded: bool) -> None:
    files = standing(tmp_path)
    files.save({"watermark_relief": THROTTLED})
    if loaded:
        files = standing(tmp_path)
        files.load()
    files.forget_what_stands()
    assert list(tmp_path.iterdir()) == []


def test_of_a_policy_that_is_off_nothing_stands(tmp_path: Path) -> None:
    files = standing(tmp_path)
    files.save({"watermark_relief": THROTTLED})
    files.offer({}, Micros(1))
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_is_off_leaves_its_file(files: MemoryFiles, tmp_path: Path) -> None:
    files.save({"oversold": learnt()})
    before = (tmp_path / "oversold.json").read_bytes()
    files.save({})
    assert (tmp_path / "oversold.json").read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 4096,
        b"[]",
        b'{"type": "overs\xffld"}',
        b'{"type": "oversold", "cpu": \xff}',
        b'{"x": ' + b"[" * 5000,
        b'{"type": "oversold", "cpu": {"history": {"minutes": [0, []]}}}',
        b'{"type": "oversold", "cpu": {"history": {"minutes": [10, [[1, -2.0]]]}}}',
        b'{"type": "oversold", "cpu": {"history": {"minutes": [10, [[99999, 1.0]]]}}}',
        b'{"type": "oversold", "cpu": {"history": {"minutes": [10, [[1, 1.0]',
    ],
)
def test_a_broken_file_is_one_sentence(files: MemoryFiles, tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "oversold.json"
    path.write_bytes(text)
    found, [problem] = files.load()
    assert found == {}
    assert problem.startswith(f"{path} cannot be used: ")
    assert problem.endswith("; oversold starts anew")
    assert "\n" not in problem


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    gone = MemoryFiles(str(tmp_path / "gone"), (oversold.POLICY,), lambda: NOW)
    assert gone.offer({"oversold": learnt()}, Micros(0)) == ""
    told = gone.offer({"oversold": learnt()}, Micros(MINUTE))
    assert told == f"{tmp_path}/gone/oversold.json cannot be written: No such file or directory"
