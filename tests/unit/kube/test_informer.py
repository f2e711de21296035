"""The informer against the fake: what holds everywhere, and what only a server on demand shows."""

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.contract.resources import CONFIG_MAPS, NODE_QOS
from slackwater.kube import informer as informer_module
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer, WatchPace
from tests.unit.kube.accesses import plain_client
from tests.unit.kube.byte_server import HangUp, Request, Wire, eventually
from tests.unit.kube.fake_api import FakeApi, status
from tests.unit.kube.informer_conformance import *  # noqa: F403 - its tests run here
from tests.unit.kube.informer_conformance import Watch
from tests.unit.kube.informer_world import QUICK, Watched, chance, now, read_text


class FakeWorld:
    namespace = "default"

    def __init__(self) -> None:
        self.api = FakeApi()
        self.timeout = 300.0

    def client(self) -> Client:
        return plain_client(self.api.server.port, timeout=self.timeout)

    def put(self, name: str, text: str) -> None:
        self.api.put(name, {"x": text})

    def delete(self, name: str) -> None:
        self.api.delete(name)

    def truth(self) -> dict[str, str]:
        found = {}
        for key, data in self.api.truth().items():
            assert isinstance(data, dict)
            found[key.partition("/")[2]] = str(data["x"])
        return found


@pytest.fixture
def world() -> Iterator[FakeWorld]:
    made = FakeWorld()
    yield made
    made.api.close()


@pytest.fixture
def watch(world: FakeWorld) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(**options: Any) -> Watched:
        made.append(Watched(world, **options))
        return made[-1]

    yield make
    for watched in made:
        watched.informer.stop()


def synced(watch: Watch, **options: object) -> Watched:
    watched = watch(**options)
    assert watched.informer.wait_synced(300)
    return watched


def test_a_forgotten_version_is_listed_again_and_deletions_are_noticed(
    world: FakeWorld, watch: Watch
) -> None:
    for name in "abc":
        world.put(name, "1")
    watched = synced(watch)
    world.api.during = cut_off(world, ["a", "b"])
    watched.reaches({"c": "1", "d": "4"})
    assert world.api.count("list") == 2
    assert watched.informer.view().problem == ""


def cut_off(
    world: FakeWorld, gone: list[str], new: tuple[str, ...] = ("d",)
) -> Callable[[Request, Wire], None]:
    """While the watch is down, things happen and the history is forgotten."""

    def once(_request: Request, wire: Wire) -> None:
        world.api.during = lambda _request, _wire: None
        for name in gone:
            world.delete(name)
        for name in new:
            world.put(name, "4")
        world.api.forget()
        wire.reset()

    return once


def test_what_did_not_change_is_not_read_again(world: FakeWorld, watch: Watch) -> None:
    reads: list[str] = []

    def read(raw: msgspec.Raw) -> str:
        reads.append(read_text(raw))
        return reads[-1]

    for name in "abc":
        world.put(name, "1")
    watched = synced(watch, read=read)
    before = watched.informer.view().items
    world.api.during = cut_off(world, ["b"])
    watched.reaches({"a": "1", "c": "1", "d": "4"})
    assert world.api.count("list") == 2
    assert reads == ["1", "1", "1", "4"]
    assert watched.informer.view().items["default/a"] is before["default/a"]


def test_a_list_that_brings_nothing_new_leaves_the_mapping(world: FakeWorld, watch: Watch) -> None:
    world.put("a", "1")
    watched = synced(watch)
    before, calls = watched.informer.view().items, watched.calls
    world.api.during = cut_off(world, [], new=())
    eventually("a second list and its watch", lambda: world.api.count("watch") == 3)
    watched.is_well()
    assert world.api.count("list") == 2
    assert watched.informer.view().items is before
    assert watched.calls - calls <= 2, "the outage and its end"


def test_bookmarks_move_the_place_to_go_on_from(world: FakeWorld, watch: Watch) -> None:
    """The object itself is long unchanged: without the bookmark its version would be forgotten."""
    world.put("a", "1")
    watched = synced(watch)
    heard = watched.informer.view().heard_at
    world.api.bookmark()
    eventually("the bookmark", lambda: watched.informer.view().heard_at > heard)
    world.api.compact()
    world.api.server.hang_up()
    eventually("a second watch", lambda: world.api.count("watch") == 2)
    world.put("a", "2")
    watched.converges()
    assert world.api.count("list") == 1
    first, second = (one.query for one in world.api.server.requests if one.query.get("watch"))
    assert first["allowWatchBookmarks"] == "true"
    assert int(second["resourceVersion"]) == int(first["resourceVersion"]) + 1


def test_watches_end_at_different_times(world: FakeWorld, watch: Watch) -> None:
    """A thousand agents that started together do not ask together for ever."""
    world.api.watch_ends_after = 0.05
    synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=100.0,
            silence=300.0,
            first_wait=0.01,
            longest_wait=0.02,
        ),
    )
    eventually("three watches", lambda: world.api.count("watch") >= 3)
    asked = [int(one.query.get("timeoutSeconds", "0")) for one in world.api.server.requests]
    seconds = [one for one in asked if one]
    assert all(100 <= one <= 120 for one in seconds)
    assert len(set(seconds)) > 1


def half_a_chunk(_request: Request, wire: Wire) -> None:
    wire.raw(b'1000\r\n{"type":"ADDED","object":{"metadata":{"na')
    raise HangUp


def half_an_event(_request: Request, wire: Wire) -> None:
    wire.chunk(b'{"type":"ADDED","object":{"metada')
    wire.end_chunks()
    raise HangUp


def reset_between_chunks(_request: Request, wire: Wire) -> None:
    wire.reset()


def no_end(_request: Request, _wire: Wire) -> None:
    raise HangUp


def nonsense(_request: Request, wire: Wire) -> None:
    wire.chunk(b"<html>502 Bad Gateway</html>\n")


def nameless(_request: Request, wire: Wire) -> None:
    wire.event("ADDED", {"no": "metadata"})


def server_error(_request: Request, wire: Wire) -> None:
    wire.event("ERROR", status(500, "InternalError", "etcd leader changed"))


def odd_error(_request: Request, wire: Wire) -> None:
    wire.event("ERROR", "not even a status")


def unknown_event(_request: Request, wire: Wire) -> None:
    wire.event("SURPRISE", {"metadata": {"name": "x", "resourceVersion": "1"}})
    raise HangUp


BREAKS = {
    "a chunk cut in half": half_a_chunk,
    "an event cut in half": half_an_event,
    "a reset between chunks": reset_between_chunks,
    "an end without a last chunk": no_end,
    "a page instead of an event": nonsense,
    "an object without a name": nameless,
    "an ERROR event": server_error,
    "an ERROR event of no form": odd_error,
    "an event of an unknown type": unknown_event,
}


@pytest.mark.parametrize("breaks", BREAKS.values(), ids=BREAKS)
def test_a_watch_that_breaks_converges(
    world: FakeWorld, watch: Watch, breaks: Callable[[Request, Wire], None]
) -> None:
    """Three times in a row, with changes in between; nothing is listed again."""
    world.put("a", "0")
    watched = synced(watch)
    for number in range(3):
        seen = world.api.count("watch")
        broken: list[int] = []

        def once(request: Request, wire: Wire, broken: list[int] = broken) -> None:
            if not broken:
                broken.append(1)
                breaks(request, wire)

        world.api.during = once
        eventually("the next watch", lambda seen=seen: world.api.count("watch") > seen)  # type: ignore[misc]
        world.put("a", str(number))
        world.put(f"b{number}", "x")
        watched.converges()
    watched.is_well()
    assert world.api.count("list") == 1
    assert world.api.count("watch") <= 8


def refuses(code: int, reason: str, *headers: tuple[str, str]) -> Callable[[Request, Wire], bool]:
    def before(_request: Request, wire: Wire) -> bool:
        wire.json(status(code, reason, "not now"), code, *headers)
        return True

    return before


def page_of_a_proxy(_request: Request, wire: Wire) -> bool:
    wire.answer(b"<html>Sign in</html>", kind="text/html")
    return True


def no_answer(_request: Request, wire: Wire) -> bool:
    wire.hang()
    return True


OUTAGES = {
    "forbidden": (refuses(403, "Forbidden"), "403 Forbidden: not now"),
    "broken": (refuses(500, "InternalError"), "500 InternalError: not now"),
    "a login page": (page_of_a_proxy, "Sign in"),
    "no answer": (no_answer, "no answer within"),
    "not a list": (lambda _, wire: wire.json([]) or True, "not a list|an event that is none"),
    "list too old": (refuses(410, "Expired"), "410 Expired"),
}


@pytest.mark.parametrize(("before", "sentence"), OUTAGES.values(), ids=OUTAGES)
def test_a_server_that_does_not_serve_is_told_and_waited_for(
    world: FakeWorld, watch: Watch, before: Callable[[Request, Wire], bool], sentence: str
) -> None:
    world.put("a", "1")
    world.api.before = before
    world.timeout = 0.5 if before is no_answer else 300.0
    watched = watch()
    eventually("the sentence", lambda: re.search(sentence, watched.informer.view().problem))
    view = watched.informer.view()
    assert (view.synced, dict(view.items), view.heard_at) == (False, {}, 0)
    assert "\n" not in view.problem
    world.api.before = lambda _request, _wire: False
    watched.converges()
    watched.is_well()


def test_while_the_server_is_away_the_last_objects_stay(world: FakeWorld, watch: Watch) -> None:
    world.put("a", "1")
    watched = synced(watch)
    eventually("the watch", lambda: world.api.count("watch"))
    calls = watched.calls
    world.api.before = refuses(503, "ServiceUnavailable")
    world.api.server.hang_up()
    watched.has_problem("503")
    heard = watched.informer.view().heard_at
    seen = world.api.count("watch")
    eventually("more attempts", lambda: world.api.count("watch") > seen + 2)
    view = watched.informer.view()
    assert (watched.items(), view.synced, view.heard_at) == ({"a": "1"}, True, heard)
    assert watched.calls <= calls + 2, "one problem is told once"
    world.put("a", "2")
    world.api.before = lambda _request, _wire: False
    watched.converges()
    watched.is_well()
    assert world.api.count("list") == 1
    assert watched.informer.view().heard_at > heard


def test_a_quiet_watch_after_an_outage_is_well(world: FakeWorld, watch: Watch) -> None:
    """Nothing happens in the cluster; that the server answers is enough."""
    watched = synced(watch)
    eventually("the watch", lambda: world.api.count("watch"))
    world.api.before = refuses(503, "ServiceUnavailable")
    world.api.server.hang_up()
    watched.has_problem("503")
    world.api.before = lambda _request, _wire: False
    watched.is_well()


def test_silence_is_not_believed_for_ever(world: FakeWorld, watch: Watch) -> None:
    """A paused server, or a network that swallows: the watch is given up and begun anew. In a
    quiet cluster that is no problem to be told."""
    watched = synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=3600.0,
            silence=0.2,
            first_wait=0.02,
            longest_wait=0.1,
        ),
    )
    calls, heard = watched.calls, watched.informer.view().heard_at
    eventually("a fourth watch", lambda: world.api.count("watch") >= 4)
    assert watched.calls == calls
    assert watched.informer.view().problem == ""
    assert watched.informer.view().heard_at > heard
    world.put("a", "1")
    watched.converges()
    assert world.api.count("list") == 1


def test_silence_of_a_server_that_is_gone_is_a_problem(world: FakeWorld, watch: Watch) -> None:
    world.timeout = 0.5
    watched = synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=3600.0,
            silence=0.2,
            first_wait=0.02,
            longest_wait=0.1,
        ),
    )
    world.api.before = no_answer
    watched.has_problem("no answer within 0.5 s")


def test_a_server_that_never_ends_a_line_is_given_up(world: FakeWorld, watch: Watch) -> None:
    def trickle(_request: Request, wire: Wire) -> None:
        while not wire.closing.wait(0.02):
            wire.chunk(b" ")

    world.api.during = trickle
    watched = synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=3600.0,
            silence=0.2,
            first_wait=0.02,
            longest_wait=0.1,
        ),
    )
    watched.has_problem("no whole event")
    world.api.during = lambda _request, _wire: None
    world.put("a", "1")
    watched.converges()


def test_retry_after_is_honoured(world: FakeWorld, watch: Watch) -> None:
    """More than the client's own patience: the informer waits so long."""
    world.api.before = refuses(429, "TooManyRequests", ("Retry-After", "3600"))
    watched = watch()
    watched.has_problem("429")
    assert len(world.api.server.requests) == 1
    watched.informer.stop()
    assert len(world.api.server.requests) == 1, "it was still waiting"


def test_an_unknown_kind_is_told_and_looked_for_again(world: FakeWorld) -> None:
    world.api.before = refuses(404, "NotFound")
    informer = Informer(world.client(), NODE_QOS, read_text, clock=now, jitter=chance(), pace=QUICK)
    informer.start()
    eventually("that it is unknown", lambda: informer.view().unknown_kind)
    assert not informer.view().synced
    world.api.before = lambda _request, _wire: False
    assert informer.wait_synced(300)
    eventually("that it is known", lambda: not informer.view().unknown_kind)
    informer.stop()


def doublings(started: int) -> int:
    """How many pauses more a slow machine has had time for: each is twice as long as the last."""
    return ((now() - started) // 1_000_000).bit_length()


def test_an_unknown_kind_is_asked_for_less_and_less(world: FakeWorld, watch: Watch) -> None:
    """Its own pauses: the others stay as they were."""
    world.api.before = refuses(404, "NotFound")
    pace = WatchPace(
        start_spread=0.0, reopen_spread=0.0, first_wait=0.05, longest_wait=0.05, unknown_wait=3600.0
    )
    watched = watch(pace=pace)
    eventually("that it is unknown", lambda: watched.informer.view().unknown_kind)
    started = now()
    eventually("a second", lambda: now() > started + 1_000_000)
    assert len(world.api.server.requests) <= 7 + doublings(started), "not twenty and more"


def test_a_server_that_ends_each_watch_at_once_is_not_stormed(
    world: FakeWorld, watch: Watch
) -> None:
    """Neither where nothing was heard, nor where one event came with each."""
    world.api.watch_ends_after = 0.0
    watched = synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=3600.0,
            silence=300.0,
            first_wait=0.05,
            longest_wait=10.0,
        ),
    )
    watched.has_problem("it ends as soon as it begins")
    started, seen = now(), world.api.count("watch")
    eventually("a second", lambda: now() > started + 1_000_000)
    assert world.api.count("watch") <= seen + 5 + doublings(started)
    assert world.api.count("list") == 1


def test_a_server_that_cuts_each_watch_after_one_event_is_not_stormed(
    world: FakeWorld, watch: Watch
) -> None:
    """A word is not enough to be well: the pauses grow all the same."""

    def cut(_request: Request, wire: Wire) -> None:
        world.api.bookmark()
        wire.event("BOOKMARK", {"metadata": {"resourceVersion": "101"}})
        wire.reset()

    world.api.during = cut
    synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=3600.0,
            silence=300.0,
            first_wait=0.05,
            longest_wait=10.0,
        ),
    )
    started = now()
    eventually("a second", lambda: now() > started + 1_000_000)
    eventually("a second watch", lambda: world.api.count("watch") >= 2)
    assert world.api.count("watch") <= 7 + doublings(started)
    assert world.api.count("list") == 1


def test_versions_that_are_forgotten_at_once_are_not_a_storm_of_lists(
    world: FakeWorld, watch: Watch
) -> None:
    world.put("a", "1")

    def always(_request: Request, wire: Wire) -> None:
        wire.event("ERROR", status(410, "Expired", "too old"))

    world.api.during = always
    synced(
        watch,
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=3600.0,
            silence=300.0,
            first_wait=0.05,
            longest_wait=10.0,
        ),
    )
    started = now()
    eventually("a second", lambda: now() > started + 1_000_000)
    eventually("a second list", lambda: world.api.count("list") >= 2)
    assert world.api.count("list") <= 6 + doublings(started)


def test_a_reader_that_is_broken_is_told() -> None:
    """A mistake of ours ends the thread; it is never silent."""
    world = FakeWorld()
    world.put("a", "1")
    problems: list[object] = []

    def broken(_raw: object) -> str:
        raise KeyError("a mistake")

    hook, threading.excepthook = threading.excepthook, problems.append
    try:
        informer = Informer(
            world.client(), CONFIG_MAPS, broken, clock=now, jitter=chance(), pace=QUICK
        )
        informer.start()
        eventually("the end", lambda: "a mistake of ours" in informer.view().problem)
        eventually("the traceback", lambda: problems)
        informer.stop()
    finally:
        threading.excepthook = hook
        world.api.close()


def test_it_stops_at_once_in_every_state(world: FakeWorld, watch: Watch) -> None:
    quiet = synced(watch)
    world.api.before = refuses(403, "Forbidden")
    waiting = watch(
        pace=WatchPace(start_spread=0.0, reopen_spread=0.0, first_wait=3600.0, longest_wait=3600.0)
    )
    waiting.has_problem("403")
    for watched in (quiet, waiting):
        before = now()
        watched.informer.stop()
        assert now() - before < 2_000_000
        assert watched.informer.view().problem == "it was stopped"


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "compact", "cut", "bookmark", "bad"]),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=25,
)


@settings(max_examples=25)
@given(moves=MOVES)
def test_whatever_happens_it_converges(moves: list[tuple[str, str]]) -> None:
    """The law: after any history of changes and accidents, it shows the server's truth."""
    world = FakeWorld()
    watched = Watched(world)
    numbers = itertools.count()
    last_good: dict[str, str] = {}
    try:
        for move, name in moves:
            match move:
                case "put":
                    last_good[name] = str(next(numbers))
                    world.put(name, last_good[name])
                case "bad" if name in last_good:
                    watched.reaches(last_good)
                    world.put(name, f"bad {next(numbers)}")
                case "delete" if name in last_good:
                    last_good.pop(name)
                    world.delete(name)
                case "compact":
                    world.api.compact()
                case "bookmark":
                    world.api.bookmark()
                case "cut":
                    world.api.server.hang_up()
        watched.reaches(last_good)
        watched.is_well()
    finally:
        watched.informer.stop()
        world.api.close()


def lists_of(world: FakeWorld) -> list[str]:
    """Which version each list asked for; empty is the latest, which older servers ask etcd for."""
    requests = list(world.api.server.requests)
    return [one.query.get("resourceVersion", "") for one in requests if not one.query.get("watch")]


def test_no_list_at_the_start_reaches_etcd(world: FakeWorld, watch: Watch) -> None:
    world.put("a", "1")
    watched = synced(watch)
    watched.converges()
    assert lists_of(world) == ["0"]


def test_a_list_after_a_forgotten_watch_is_no_older(world: FakeWorld, watch: Watch) -> None:
    """From the server's memory too, without a limit, which would send it to etcd."""
    world.put("a", "1")
    watched = synced(watch)
    known = world.api.put("b", {"x": "2"})
    watched.converges()
    world.api.forget()
    eventually("a list", lambda: world.api.count("list") == 2)
    assert lists_of(world) == ["0", str(known)]
    query = [one.query for one in world.api.server.requests if not one.query.get("watch")][-1]
    assert (query["resourceVersionMatch"], query.get("limit")) == ("NotOlderThan", None)


TOO_NEW = status(504, "Timeout", "Too large resource version: 7", "ResourceVersionTooLarge")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (status(410, "Expired", "too old"), 410),
        (TOO_NEW, 504),
        (status(504, "Timeout", "Too large resource version: 7, current: 5"), 504),
    ],
)
def test_the_latest_is_asked_for_where_the_memory_has_no_answer(
    world: FakeWorld, watch: Watch, answer: dict[str, object], code: int
) -> None:
    world.put("a", "1")
    watched = synced(watch)

    def refuse(request: Request, wire: Wire) -> bool:
        if request.query.get("watch") or not request.query.get("resourceVersion"):
            return False
        wire.json(answer, code)
        return True

    world.api.before = refuse
    world.api.forget()
    eventually("the latest", lambda: "" in lists_of(world))
    watched.is_well()
    world.put("b", "2")
    watched.converges()


class Fixed(Random):
    """The same number each time."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def random(self) -> float:
        return self._number


class Waits:
    """In place of the event that ends an informer: notes how long it would wait."""

    def __init__(self, informer: Informer[str]) -> None:
        self.waited: list[float] = []
        self._event = informer._stopping
        informer._stopping = self  # type: ignore[assignment]

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return self._event.wait(min(seconds, 0.01))

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0])
def test_informers_start_and_come_back_spread(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    """Within half a second at the start, within five after a watch that worked."""
    monkeypatch.setattr(informer_module, "_SHORTEST_WATCH", 0.0)
    informer = Informer(
        world.client(), CONFIG_MAPS, read_text, clock=now, jitter=Fixed(number), pace=WatchPace()
    )
    waits = Waits(informer)
    informer.start()
    eventually("the watch", lambda: world.api.count("watch") == 1)
    world.api.server.hang_up()
    eventually("the next watch", lambda: world.api.count("watch") == 2)
    informer.stop()
    assert waits.waited[0] == 0.5 * number
    assert waits.waited[1] == 5.0 * number + 0.5 * (0.5 + number / 2)
