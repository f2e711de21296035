"""The informers of every kind that controllers read, as one view.

A kind that the cluster does not know, because its CRD is not installed, is reported as such; its
informer tries again, and the others go on.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from slackwater.contract.resources import ObjectSelector
from slackwater.kube.client import Client
from slackwater.kube.informer import Informer, WatchPace
from slackwater.manager.cluster_view import ClusterView, WatchedKind
from slackwater.model.units import Micros

#: Definitions are installed while it runs, and there are only two replicas.
_PACE = WatchPace(unknown_wait=30.0)


class Informers:
    """Guards the informers."""

    def __init__(
        self,
        client: Client,
        kinds: Iterable[WatchedKind[Any]],
        *,
        clock: Callable[[], Micros],
        changed: Callable[[], None],
        jitter: random.Random,
    ) -> None:
        self._changed = changed
        self._listed: set[WatchedKind[Any]] = set()
        self._kinds: dict[WatchedKind[Any], Informer[Any]] = {
            kind: Informer(
                client,
                kind.resource,
                kind.read,
                clock=clock,
                selector=_select(kind),
                changed=self._call_until_listed(kind) if kind.waits else changed,
                jitter=jitter,
                pace=_PACE,
            )
            for kind in kinds
        }

    def start(self) -> None:
        for informer in self._kinds.values():
            informer.start()

    def stop(self) -> None:
        for informer in self._kinds.values():
            informer.stop()

    def _call_until_listed(self, kind: WatchedKind[Any]) -> Callable[[], None]:
        """Of a thousand nodes one changes every second, but hardly ever its labels: once they are
        listed, the next round comes soon enough by itself."""

        def call() -> None:
            if kind not in self._listed:
                if self._kinds[kind].view().synced:
                    self._listed.add(kind)
                self._changed()

        return call

    def look(self) -> ClusterView:
        return ClusterView({kind: informer.view() for kind, informer in self._kinds.items()})


def _select(kind: WatchedKind[Any]) -> ObjectSelector:
    named = f"metadata.name={kind.name}" if kind.name else ""
    return ObjectSelector(fields=",".join(filter(None, (named, kind.fields))))
