"""Writes objects and statuses to the API server: the only module of the manager that changes one.

Owns the back-off. Writes by server-side apply, and annotations by a patch of exactly the keys that
differ, so that other writers' fields are left alone. What was written is not written again before
the informer had time to show it, nor, if someone undoes it, more often than that.
"""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client, PatchKind
from slackwater.manager.controllers.controller import DesiredWrite, WriteVerb
from slackwater.model.plan import Result
from slackwater.model.units import Micros

FIELD_MANAGER = "slackwater-manager"
#: Until what was written comes back through the watch.
_ECHO = Micros(30_000_000)
_FIRST_WAIT, _LONGEST_WAIT = Micros(2_000_000), Micros(300_000_000)
_NOT_FOUND = "NotFound"

#: Carries out one write; raises RequestError.
Apply = Callable[[DesiredWrite], None]


class WriteAttempt(msgspec.Struct, frozen=True):
    """The last attempt on one object: how it ended, and until when it is not repeated. `meaning` is
    of what was written: thousands of whole statuses would be too much to remember."""

    result: Result
    detail: str
    until: Micros
    meaning: object = None
    #: How often in a row it failed.
    failures: int = 0
    #: False: no API server answered, so nothing else need be tried now.
    answered: bool = True

    def forbids(self, desired: DesiredWrite) -> bool:
        """Whether this must wait: after a failure anything, otherwise only the same again."""
        return bool(self.failures) or self.meaning == desired.meaning


def apply_with(client: Client, annotate_by: str = "") -> Apply:
    """`annotate_by` is the subresource by which annotations are written: with "status" a Node's
    allocatable amounts follow its ratio in the same write, by the webhook."""

    def apply(desired: DesiredWrite) -> None:
        match desired.verb:
            case WriteVerb.STATUS:
                body = {"status": msgspec.to_builtins(desired.body)}
                _apply(client, desired, body, "status")
            case WriteVerb.APPLY:
                _apply(client, desired, msgspec.to_builtins(desired.body))
            case WriteVerb.TOUCH:
                _patch(client, desired, {}, PatchKind.MERGE, "status")
            case WriteVerb.DELETE:
                client.delete(desired.resource, desired.name, desired.namespace, uid=desired.uid)
            case WriteVerb.CONDITION:
                body = {"metadata": _identity(desired), "status": {"conditions": [desired.body]}}
                _patch(client, desired, body, PatchKind.STRATEGIC, "status")
            case WriteVerb.ANNOTATE:
                # A merge: server-side apply could not remove what another writer has left there.
                body = {"metadata": {**_identity(desired), "annotations": desired.body}}
                _patch(client, desired, body, PatchKind.MERGE, annotate_by)

    return apply


def _identity(desired: DesiredWrite) -> dict[str, str]:
    """Another object of the same name is refused."""
    return {"uid": desired.uid} if desired.uid else {}


def _apply(
    client: Client, desired: DesiredWrite, body: dict[str, Any], subresource: str = ""
) -> None:
    body["metadata"] = {**body.get("metadata", {}), **_identity(desired)}
    client.apply(
        desired.resource,
        desired.name,
        body,
        manager=FIELD_MANAGER,
        namespace=desired.namespace,
        subresource=subresource,
    )


def _patch(
    client: Client,
    desired: DesiredWrite,
    body: dict[str, Any],
    kind: PatchKind,
    subresource: str,
) -> None:
    client.patch(
        desired.resource,
        desired.name,
        body,
        kind=kind,
        namespace=desired.namespace,
        subresource=subresource,
    )


class ObjectWriter:
    """Guards the memory of attempts."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._attempts: dict[str, WriteAttempt] = {}

    def write(self, desired: DesiredWrite, at: Micros) -> WriteAttempt | None:
        """None if it is too early to try, or to try again."""
        last = self._attempts.get(desired.key)
        if last is not None and at < last.until and last.forbids(desired):
            return None
        attempt = self._attempt(desired, at, last.failures if last else 0)
        self._attempts[desired.key] = attempt
        return attempt

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Forgets objects that are gone."""
        for gone in self._attempts.keys() - set(keys):
            del self._attempts[gone]

    def next_due(self) -> Micros | None:
        """When the first failed write may be tried again."""
        waiting = [each.until for each in self._attempts.values() if each.failures]
        return min(waiting, default=None)

    def settle(self, key: str) -> None:
        """The object is as it should be. A failed write is not tried again; an applied one stays
        remembered, so that someone who keeps undoing it does not start a war."""
        last = self._attempts.get(key)
        if last is not None and last.failures:
            del self._attempts[key]

    def _attempt(self, desired: DesiredWrite, at: Micros, failures: int) -> WriteAttempt:
        try:
            self._apply(desired)
        except RequestError as error:
            gone = isinstance(error, HttpStatusError) and error.reason == _NOT_FOUND
            wait = min(_FIRST_WAIT << min(failures, 20), _LONGEST_WAIT)
            asked = error.retry_after if isinstance(error, HttpStatusError) else None
            until = at + max(wait, int((asked or 0) * 1_000_000))
            result = Result.VANISHED if gone else Result.REFUSED
            return WriteAttempt(
                result,
                str(error),
                Micros(until),
                failures=failures + 1,
                answered=isinstance(error, HttpStatusError),
            )
        return WriteAttempt(Result.APPLIED, "", Micros(at + _ECHO), desired.meaning)
