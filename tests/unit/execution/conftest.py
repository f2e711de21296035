"""A plain kernel, a fake systemd, and an executor over them with a ledger in a folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.cgroup import CgroupRef, CgroupVersion
from tests.unit.execution.desk import POD, SLICE, opened, units
from tests.unit.execution.fake_systemd import FakeSystemd
from tests.unit.execution.plain_kernel import Clock, PlainKernel


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainKernel:
    """Of cgroup v2."""
    (tmp_path / "cgroup").mkdir()
    return PlainKernel(tmp_path / "cgroup", CgroupVersion.V2, monkeypatch)


@pytest.fixture
def v1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainKernel:
    return PlainKernel(tmp_path, CgroupVersion.V1, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The ledger's."""
    return tmp_path / "ledger"


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    made = opened(folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def pod(kernel: PlainKernel) -> CgroupRef:
    return kernel.make(POD)


@pytest.fixture
def executor(kernel: PlainKernel, ledger: Ledger) -> Executor:
    return Executor(ledger, kernel.writer(), None, Clock())


@pytest.fixture
def systemd(tmp_path: Path, kernel: PlainKernel) -> Iterator[FakeSystemd]:
    made = FakeSystemd(tmp_path / "private", kernel)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def slice_(systemd: FakeSystemd, kernel: PlainKernel) -> CgroupRef:
    ref = kernel.make(SLICE)
    systemd.unit(SLICE, CPUWeight=("t", 79))
    return ref


@pytest.fixture
def with_units(kernel: PlainKernel, ledger: Ledger, systemd: FakeSystemd) -> Executor:
    return Executor(ledger, kernel.writer(), units(systemd), Clock())
