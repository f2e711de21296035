"""What the tests of the ledger and the executor share: entries, ledgers, one change at a time."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.knob import (
    Knob,
    KnobValue,
)
from slackwater.model.plan import FILE_ROUTE, Change, LedgerEntry, Outcome, Ownership, Result
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import Clock

POD = "kubepods/pod1"
SLICE = "kubepods.slice/kubepods-pod1.slice"
UNIT = "unit:kubepods-pod1.slice"
NONE = Bandwidth(UNLIMITED)
BOOT = "11111111-2222-3333-4444-555555555555"


def quota(limit: int, period: int = 100_000) -> Bandwidth:
    return Bandwidth(Micros(limit), Micros(period))


def entry(number: int = 1, knob: str = "quota", ours: str = "20000 100000") -> LedgerEntry:
    ref = CgroupRef(f"kubepods/pod{number}", number, Level.POD, Tier.BURSTABLE, f"uid-{number}")
    return LedgerEntry(ref, knob, FILE_ROUTE, "max 100000", "max 100000", ours, Micros(7))


def opened(folder: Path, boot: str = BOOT) -> Ledger:
    found = Ledger.open(str(folder), boot)
    assert isinstance(found, Ledger), found
    return found


def reread(folder: Path) -> tuple[LedgerEntry, ...]:
    """What a next run would find; closes again."""
    found = opened(folder)
    found.close()
    return found.entries


def units(systemd: FakeSystemd, timeout: float = 300.0) -> UnitWriter:
    found = UnitWriter.open(systemd.kernel.writer(), Clock(), systemd.path, timeout, 300.0)
    assert isinstance(found, UnitWriter), found
    return found


def results(outcomes: list[Outcome]) -> list[tuple[str, Result]]:
    return [(outcome.change.knob.name, outcome.result) for outcome in outcomes]


def one(executor: Executor, ref: CgroupRef, knob: Knob, new: KnobValue) -> Outcome:
    (outcome,) = executor.apply([Change(ref, knob, new, new)])
    return outcome


def adopted(executor: Executor) -> dict[str, Ownership]:
    return {a.entry.knob: a.ownership for a in executor.adopt().live}


class Killed(BaseException):
    """In place of kill -9: nothing of ours catches it."""


def killed_before(write: int, patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Runs `act` until its nth write of a kernel's file."""
    plain, left = os.write, [write]

    def counted(descriptor: int, data: bytes) -> int:
        if not os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl"):
            left[0] -= 1
            if not left[0]:
                raise Killed
        return plain(descriptor, data)

    with patch.context() as context:
        context.setattr(os, "write", counted)
        with pytest.raises(Killed):
            act()
