"""What a controller is: the kinds that it watches, and a pure function to what should stand there.

It reads one view of the cluster and the time, and returns every object and status that should
stand there or go, and what has to be told; the loop writes what does not stand there yet. So a
controller can be tested without a cluster, and a follower runs none of it.
"""

import enum
from collections.abc import Callable
from typing import Any

import msgspec

from slackwater.contract.resources import Resource
from slackwater.kube.events import KubeEvent
from slackwater.manager.cluster_view import ClusterView, WatchedKind


class WriteVerb(enum.Enum):
    """A status, a whole object, its end, some of an object's annotations, or one of a Node's
    conditions; or a write of a status that changes nothing, for the webhook to see."""

    STATUS = "status"
    TOUCH = "touch"
    APPLY = "apply"
    DELETE = "delete"
    ANNOTATE = "annotate"
    CONDITION = "condition"


class DesiredWrite(msgspec.Struct, frozen=True):
    """What should stand there of one object.

    `body` is the status, the metadata and the spec, the annotations that are to be changed, None
    being one that goes, or the condition as an element of a strategic merge patch; `meaning` is
    the same without its times: equal where only they differ. `uid` is empty for an object that is
    not there yet; with it, an object that replaced this one under its name is not mistaken for it.
    `outcome` and `because` are for the log; `event` is sent once it was written.
    """

    verb: WriteVerb
    resource: Resource
    name: str
    body: Any
    meaning: object
    is_current: bool
    namespace: str = ""
    uid: str = ""
    outcome: str = ""
    because: str = ""
    event: KubeEvent | None = None

    @property
    def key(self) -> str:
        """Of the attempts to write it. What is written apart has a key of its own."""
        kind = _PARTS.get(self.verb, "object")
        return f"{kind} {self.uid or self.resource.path(self.namespace, self.name)}"

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        what = f"{self.resource.kind} {where}"
        part = _PARTS.get(self.verb)
        return f"{part} of {what}" if part else what


#: What is written where it is not the whole object.
_PARTS = {
    WriteVerb.STATUS: "status",
    WriteVerb.TOUCH: "amounts",
    WriteVerb.ANNOTATE: "annotations",
    WriteVerb.CONDITION: "condition",
}


class Notice(msgspec.Struct, frozen=True):
    """What has no status to stand in. Told once: in the log, and as an event. `about` names it;
    another text about the same is told again."""

    about: str
    text: str
    event: KubeEvent | None = None


class Reconciled(msgspec.Struct, frozen=True):
    """All that a controller wants: what is no longer among `notices` has ended."""

    writes: tuple[DesiredWrite, ...] = ()
    notices: tuple[Notice, ...] = ()


class Controller(msgspec.Struct, frozen=True):
    """`reconcile` is given the time of day in RFC 3339. It runs once every kind in `watches` has
    been listed; one that the cluster does not know counts as listed and empty, unless it is in
    `needs`, without which there is nothing to do."""

    name: str
    watches: tuple[WatchedKind[Any], ...]
    reconcile: Callable[[ClusterView, str], Reconciled]
    needs: tuple[WatchedKind[Any], ...] = ()
