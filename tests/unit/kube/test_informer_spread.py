"""How informers of many agents are spread in time: pauses are counted, and none is waited for."""

import random
import threading
from collections.abc import Iterator

import pytest

from slackwater.contract.resources import CONFIG_MAPS
from slackwater.kube import informer as informer_module
from slackwater.kube.informer import Informer, WatchPace
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import eventually
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.informer_world import now, read_text


class Chance(random.Random):
    """Always the same share of what may be waited."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def random(self) -> float:
        return self._share


class Pauses(threading.Event):
    """In place of an informer's waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout or 0.0)
        return self.is_set()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi()
    yield made
    made.close()


def pauses_of(api: FakeApi, share: float, watches: int) -> list[float]:
    """With an agent's own pace, until so many watches began."""
    informer = Informer(
        plain_client(api.server.port, timeout=300.0),
        CONFIG_MAPS,
        read_text,
        clock=now,
        namespace="default",
        jitter=Chance(share),
        pace=WatchPace(),
    )
    pauses = informer._stopping = Pauses()
    informer.start()
    try:
        eventually("the watches", lambda: api.count("watch") >= watches)
        assert informer.view().synced
    finally:
        informer.stop()
    return pauses.asked


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_agents_that_start_at_once_list_within_half_a_second(api: FakeApi, share: float) -> None:
    assert pauses_of(api, share, watches=1)[0] == share * 0.5


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_watches_that_broke_are_opened_again_within_five_seconds(
    api: FakeApi, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all watches of a server do when it goes: before their time."""
    monkeypatch.setattr(informer_module, "_SHORTEST_WATCH", 0.001)
    api.watch_ends_after = 0.05
    _, *later = pauses_of(api, share, watches=3)
    assert later[:2] == [share * 5.0] * 2
    assert api.count("list") == 1
