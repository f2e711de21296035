"""What holds for an informer whatever serves it: imported by the tests of the fake and of the real
API server. Each test gets a `world` that is empty, and a `watch` that makes informers in it."""

from collections.abc import Callable

from slackwater.contract.resources import ObjectSelector
from slackwater.kube.informer import WatchPace
from tests.unit.kube.byte_server import eventually
from tests.unit.kube.informer_world import Watched, World, now

Watch = Callable[..., Watched]


def test_what_is_there_is_listed(world: World, watch: Watch) -> None:
    world.put("a", "1")
    world.put("b", "2")
    watched = watch()
    assert watched.informer.wait_synced(300)
    view = watched.informer.view()
    assert watched.items() == {"a": "1", "b": "2"} == world.truth()
    assert (view.synced, view.problem, view.unreadable) == (True, "", {})
    assert f"{world.namespace}/a" in view.items
    assert view.heard_at > 0


def test_nothing_is_synced_too(world: World, watch: Watch) -> None:
    watched = watch()
    assert watched.informer.wait_synced(300)
    assert watched.items() == {} == world.truth()


def test_what_happens_is_heard(world: World, watch: Watch) -> None:
    watched = watch()
    assert watched.informer.wait_synced(300)
    world.put("a", "1")
    watched.reaches({"a": "1"})
    world.put("a", "2")
    watched.reaches({"a": "2"})
    world.put("b", "3")
    watched.reaches({"a": "2", "b": "3"})
    world.delete("a")
    watched.reaches({"b": "3"})
    world.put("a", "4")
    watched.reaches({"a": "4", "b": "3"})
    assert watched.calls >= 5


def test_the_mapping_stays_the_same_while_nothing_changes(world: World, watch: Watch) -> None:
    world.put("a", "1")
    watched = watch()
    assert watched.informer.wait_synced(300)
    before = watched.informer.view().items
    assert watched.informer.view().items is before
    world.put("b", "2")
    watched.converges()
    after = watched.informer.view().items
    assert after is not before
    assert f"{world.namespace}/b" not in before, "a reader's own mapping changed"
    assert watched.informer.view().items is after


def test_what_cannot_be_read_keeps_its_last_good_value(world: World, watch: Watch) -> None:
    world.put("a", "1")
    world.put("never", "bad from the start")
    watched = watch()
    assert watched.informer.wait_synced(300)
    never, key = f"{world.namespace}/never", f"{world.namespace}/a"
    assert watched.items() == {"a": "1"}
    assert list(watched.informer.view().unreadable) == [never]
    world.put("a", "bad now")
    eventually("a complaint", lambda: key in watched.informer.view().unreadable)
    view = watched.informer.view()
    assert view.items[key] == "1"
    assert view.unreadable[key] == "data.x is 'bad now', but must be another"
    world.put("a", "2")
    watched.reaches({"a": "2"})
    assert list(watched.informer.view().unreadable) == [never]
    world.delete("never")
    eventually("no complaints", lambda: not watched.informer.view().unreadable)


def test_a_selector_is_the_servers(world: World, watch: Watch) -> None:
    world.put("a", "1")
    world.put("b", "2")
    watched = watch(selector=ObjectSelector(fields="metadata.name=b"))
    assert watched.informer.wait_synced(300)
    assert watched.items() == {"b": "2"}


def test_a_watch_that_ends_goes_on(world: World, watch: Watch) -> None:
    """The server ends it after a second; nothing is listed again, nothing is lost."""
    watched = watch(
        pace=WatchPace(
            start_spread=0.0,
            reopen_spread=0.0,
            watch=1.0,
            silence=5.0,
            first_wait=0.02,
            longest_wait=0.2,
        )
    )
    assert watched.informer.wait_synced(300)
    first = watched.informer.view().heard_at
    for number in range(12):
        world.put("a", str(number))
        watched.reaches({"a": str(number)})
        eventually("the next quarter", _passed(first + 250_000 * (number + 1)))
    watched.is_well()


def _passed(at: int) -> Callable[[], bool]:
    return lambda: now() > at


def test_a_stopped_one_says_so_and_keeps_what_it_knew(world: World, watch: Watch) -> None:
    world.put("a", "1")
    watched = watch()
    assert watched.informer.wait_synced(300)
    watched.informer.stop()
    view = watched.informer.view()
    assert watched.items() == {"a": "1"}
    assert view.problem == "it was stopped"
