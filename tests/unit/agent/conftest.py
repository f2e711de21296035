"""Endpoints for tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.runtime import unix_server
from tests.unit.agent.served import Served


@pytest.fixture(autouse=True)
def _quick_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_server, "_POLL_SECONDS", 0.01)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(str(tmp_path))
    yield made
    made.close()
