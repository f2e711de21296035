"""What the informer's tests need of a server: a truth that they can change, and ways to it.

The fake serves it for the unit tests, the real API server for tests/cluster: the same tests run
against both.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from slackwater.contract.resources import CONFIG_MAPS, ObjectSelector
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer, WatchPace
from slackwater.model.units import Micros
from tests.unit.kube.byte_server import eventually

_SEEDS = itertools.count()
#: Fast, for tests: a real informer waits for seconds where this one waits for moments.
QUICK = WatchPace(
    watch=3600.0,
    silence=300.0,
    first_wait=0.02,
    longest_wait=0.2,
    start_spread=0.0,
    reopen_spread=0.0,
)


class World(Protocol):
    """One namespace of ConfigMaps, each with one text under the key `x`."""

    namespace: str

    def client(self) -> Client: ...

    def put(self, name: str, text: str) -> None: ...

    def delete(self, name: str) -> None: ...

    def truth(self) -> dict[str, str]: ...


class _Data(msgspec.Struct, frozen=True):
    x: str = ""


class _Map(msgspec.Struct, frozen=True):
    data: _Data = _Data()


def read_text(raw: msgspec.Raw) -> str:
    """The text; one that begins with "bad" is refused, as a contract would."""
    text = msgspec.json.decode(raw, type=_Map).data.x
    if text.startswith("bad"):
        raise ValueError(f"data.x is '{text}', but must be\nanother")
    return text


def chance(seed: int = 7) -> random.Random:
    """The same each time."""
    return random.Random(seed)  # noqa: S311 - no secret


def now() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


class Watched:
    """One informer and how often it called."""

    def __init__(
        self,
        world: World,
        pace: WatchPace = QUICK,
        selector: ObjectSelector = ObjectSelector(),  # noqa: B008
        read: Callable[[msgspec.Raw], str] = read_text,
    ) -> None:
        self.world = world
        self.calls = 0
        self._lock = threading.Lock()
        self.informer = Informer(
            world.client(),
            CONFIG_MAPS,
            read,
            clock=now,
            namespace=world.namespace,
            selector=selector,
            changed=self._called,
            jitter=chance(next(_SEEDS)),
            pace=pace,
        )
        self.informer.start()

    def _called(self) -> None:
        with self._lock:
            self.calls += 1

    def items(self) -> dict[str, str]:
        """By name alone; without the one that a real cluster puts into every namespace."""
        found = self.informer.view().items
        return {key.partition("/")[2]: one for key, one in found.items() if one}

    def converges(self) -> None:
        """To the server's truth."""
        self.reaches(self.world.truth())

    def reaches(self, wanted: dict[str, str]) -> None:
        try:
            eventually("the truth", lambda: self.items() == wanted)
        except AssertionError:
            assert self.items() == wanted
            raise

    def has_problem(self, part: str) -> None:
        eventually(f"a problem with {part!r}", lambda: part in self.informer.view().problem)

    def is_well(self) -> None:
        eventually("an end of problems", lambda: not self.informer.view().problem)
