"""A cluster's objects for one node's agent, as the informers have them now.

Holds what the agent may begin with: everything that was ever asked for was heard once, its Node is
there, and its configuration is good. Before that the objects that an earlier run saved are used,
with their age, as soon as the server is known to be silent; where only the configuration is wrong,
its last good content. Without any, nothing is decided.
Later what cannot be heard, or is wrong, stays as it was. Never waits for the network.
"""

import time
from typing import Any

import msgspec

from slackwater.contract.kubernetes import (
    Node,
)
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.node_interference import SeenInterference
from slackwater.contract.node_offer import SeenOffer
from slackwater.contract.node_report import NodeStatusPatch
from slackwater.kube.informer import InformerView
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros, format_age
from slackwater.observation.objects.cluster_kinds import (
    Feed,
    Feeds,
    SeenMap,
    SeenNode,
    Views,
    is_left_out,
    join_views,
    wrong_in,
)
from slackwater.observation.objects.object_set import (
    MissingObjects,
    Objects,
    RecalledSettings,
    SavedObjects,
)

_LOOK_AGAIN = 0.05
_STAYS = "nothing is decided yet, and values of an earlier run stay"


def _say_the_same(one: Views, other: Views) -> bool:
    """An informer keeps its mapping while nothing changes."""
    return all(
        mine.items is other[name].items
        and mine.unreadable == other[name].unreadable
        and mine.unknown_kind == other[name].unknown_kind
        and is_left_out(name, mine) == is_left_out(name, other[name])
        for name, mine in one.items()
    )


def _unheard(views: Views) -> dict[str, str]:
    """The sources that never answered, each with the reason, empty where none is known."""
    return {
        name: view.problem
        for name, view in views.items()
        if not view.synced and not view.unknown_kind and not is_left_out(name, view)
    }


class ClusterObjects:
    """Guards the informers, and what was good last."""

    def __init__(
        self, feeds: Feeds, node: str, started: Micros, saved: SavedObjects | None = None
    ) -> None:
        self._feeds = feeds
        self._saved = saved
        before = saved.objects if saved else Objects()
        self._reads = 0
        self._in_use: Objects | None = None
        self._node = node
        self._started = started
        self._taken: Views | None = None
        # Where they are wrong from the start, settings say what they said in the run before.
        self._known = Objects(colocation=before.colocation, settings=before.settings)

    def start(self) -> None:
        for feed in self._all():
            feed.start()

    def stop(self) -> None:
        for feed in self._all():
            feed.stop()

    def wait(self, patience: float) -> None:
        """For a run of one decision: until the agent can begin, or so many seconds."""
        deadline = time.monotonic() + patience
        while self._lacking(self._views()) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)

    def read(self) -> Objects | Gap:
        """The same object again where nothing that the agent uses changed."""
        views = self._views()
        if self._taken is None:
            self._reads += 1
            lacking = self._lacking(views)
            if lacking and self._saved is not None and self._may_use_saved(views):
                return self._use_saved(self._saved, lacking)
            if lacking:
                problems = tuple(
                    msgspec.structs.replace(each, consequence=_STAYS) for each in lacking.problems
                )
                return MissingObjects(f"{lacking.reason}; {_STAYS}", problems=problems)
        elif _say_the_same(views, self._taken):
            return self._known
        found = join_views(views, self._known, self._node)
        if self._saved is not None:
            said = self._saved.objects
            recalled = RecalledSettings(said.colocation, said.settings)
            found = msgspec.structs.replace(found, recalled=recalled)
        self._known = _kept(self._known, found)
        self._taken, self._saved, self._in_use = views, None, None
        return self._known

    def _may_use_saved(self, views: Views) -> bool:
        """A server that is there answers within moments: only one that is known to be away, or is
        silent at the second look, makes us go by what was. A Node that is gone does not."""
        if views["node"].synced and self._node not in views["node"].items:
            return False
        unheard = _unheard(views)
        return any(unheard.values()) or (bool(unheard) and self._reads > 1)

    def _use_saved(self, saved: SavedObjects, lacking: MissingObjects) -> Objects:
        """The same object while the reason is the same."""
        age = format_age(saved.age)
        consequence = f"what was known {age} before the agent's start is used"
        problem = ConfigurationProblem(lacking.reason, consequence=consequence)
        if self._in_use is None or self._in_use.problems != (problem,):
            self._in_use = msgspec.structs.replace(
                saved.objects, problems=(problem,), saved_age=saved.age
            )
        return self._in_use

    def status_patch(self) -> NodeStatusPatch | None:
        """What the Node shows of us, as far as it is heard."""
        seen = self._seen_node()
        return seen.status_patch if seen else None

    def node(self) -> Node | None:
        """The Node itself, as far as it is heard. From any thread."""
        seen = self._seen_node()
        return seen.node if seen else None

    def interference(self) -> SeenInterference | None:
        """Taint and condition of the Node, as far as it is heard. From any thread."""
        seen = self._seen_node()
        return seen.interference if seen else None

    def offer(self) -> SeenOffer | None:
        """Extended resources of the Node, as far as it is heard. From any thread."""
        seen = self._seen_node()
        return seen.offer if seen else None

    def release_asked(self) -> str | None:
        """By what word our settings' ConfigMap asks for a release of everything: empty where it
        does not, None where there is none, or it cannot be read."""
        for seen in self._feeds.settings.view().items.values():
            if isinstance(seen, SeenMap):
                return seen.release
        return None

    def find_pod(self, namespace: str, name: str) -> Pod | None:
        """As it was heard last. From any thread."""
        found = self._feeds.pods.view().items.get(f"{namespace}/{name}")
        return found if isinstance(found, Pod) else None

    def _seen_node(self) -> SeenNode | None:
        seen = self._feeds.node.view().items.get(self._node)
        return seen if isinstance(seen, SeenNode) else None

    def uid_of(self, key: str) -> str:
        """Of a ConfigMap that we read, by namespace/name; empty where it is not known."""
        for feed in (self._feeds.colocation, self._feeds.settings):
            seen = feed.view().items.get(key)
            if isinstance(seen, SeenMap):
                return seen.uid
        return ""

    def freshness(self, at: Micros) -> dict[str, Freshness]:
        """By source; a kind that the server does not have is none, nor is one that we go on
        without."""
        return {
            name: Freshness(self._age(view, at), view.problem)
            for name, view in self._views().items()
            if not view.unknown_kind and not is_left_out(name, view)
        }

    def _age(self, view: InformerView[Any], at: Micros) -> Micros:
        if view.heard_at:
            return Micros(at - view.heard_at)
        before = 0 if self._in_use is None else self._in_use.saved_age or 0
        return Micros(at - self._started + before)

    def _all(self) -> tuple[Feed[Any], ...]:
        return tuple(getattr(self._feeds, name) for name in self._feeds.__struct_fields__)

    def _views(self) -> Views:
        return {name: getattr(self._feeds, name).view() for name in self._feeds.__struct_fields__}

    def _lacking(self, views: Views) -> MissingObjects | None:
        """Why the agent cannot begin; None where it can."""
        unheard = _unheard(views)
        if unheard:
            why = next(filter(None, unheard.values()), "no answer yet")
            return MissingObjects(f"waiting for {', '.join(unheard)}: {why}")
        known = self._known
        wrong = (
            *(() if known.colocation else wrong_in(views["colocation"])),
            *(() if known.settings else wrong_in(views["settings"])),
        )
        if wrong:
            return MissingObjects("; ".join(each.sentence() for each in wrong), problems=wrong)
        if self._node not in views["node"].items:
            why = next(iter(views["node"].unreadable.values()), "")
            return MissingObjects(why or f"there is no Node {self._node}")
        return None


def _kept(before: Objects, now: Objects) -> Objects:
    """What is equal stays the same object: who compares by identity need not look again."""
    if now == msgspec.structs.replace(before, recalled=None):
        return before
    if now.pods == before.pods:
        return msgspec.structs.replace(now, pods=before.pods)
    return now
