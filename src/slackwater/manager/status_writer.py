"""Writes statuses to the API server: the only module of the manager that changes an object.

Owns the back-off. Writes by server-side apply on the status subresource, so that other writers'
fields are left alone. A status is not written again before the informer had time to show it, nor,
if someone undoes it, more often than that.
"""

from collections.abc import Callable, Collection

import msgspec

from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.manager.controllers.controller import DesiredStatus
from slackwater.model.plan import Result
from slackwater.model.units import Micros

FIELD_MANAGER = "slackwater-manager"
#: Until what was written comes back through the watch.
_ECHO = Micros(30_000_000)
_FIRST_WAIT, _LONGEST_WAIT = Micros(2_000_000), Micros(300_000_000)
_NOT_FOUND = "NotFound"

#: Applies one status; raises RequestError.
Apply = Callable[[DesiredStatus], None]


class StatusWriteAttempt(msgspec.Struct, frozen=True):
    """The last attempt on one object: what, how it ended, and until when it is not repeated."""

    desired: DesiredStatus
    result: Result
    detail: str
    until: Micros
    #: How often in a row it failed.
    failures: int = 0
    #: False: no API server answered, so nothing else need be tried now.
    answered: bool = True

    def forbids(self, desired: DesiredStatus) -> bool:
        """Whether this status must wait: after a failure any, otherwise only an equal one."""
        return bool(self.failures) or self.desired.meaning == desired.meaning


def apply_with(client: Client) -> Apply:
    def apply(desired: DesiredStatus) -> None:
        resource = desired.resource
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            # With the uid, an object that replaced this one under its name is not mistaken for it.
            "metadata": {"name": desired.name, "uid": desired.uid},
            "status": msgspec.to_builtins(desired.status),
        }
        client.apply(resource, desired.name, body, manager=FIELD_MANAGER, subresource="status")

    return apply


class StatusWriter:
    """Guards the memory of attempts."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._attempts: dict[str, StatusWriteAttempt] = {}

    def write(self, desired: DesiredStatus, at: Micros) -> StatusWriteAttempt | None:
        """None if it is too early to try, or to try again."""
        last = self._attempts.get(desired.uid)
        if last is not None and at < last.until and last.forbids(desired):
            return None
        attempt = self._attempt(desired, at, last.failures if last else 0)
        self._attempts[desired.uid] = attempt
        return attempt

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forgets objects that are gone."""
        for gone in self._attempts.keys() - set(uids):
            del self._attempts[gone]

    def next_due(self) -> Micros | None:
        """When the first failed write may be tried again."""
        waiting = [each.until for each in self._attempts.values() if each.failures]
        return min(waiting, default=None)

    def settle(self, uid: str) -> None:
        """The object has the status that it should have. A failed write is not tried again; an
        applied one stays remembered, so that someone who keeps undoing it does not start a war."""
        last = self._attempts.get(uid)
        if last is not None and last.failures:
            del self._attempts[uid]

    def _attempt(self, desired: DesiredStatus, at: Micros, failures: int) -> StatusWriteAttempt:
        try:
            self._apply(desired)
        except RequestError as error:
            gone = isinstance(error, HttpStatusError) and error.reason == _NOT_FOUND
            wait = min(_FIRST_WAIT << min(failures, 20), _LONGEST_WAIT)
            asked = error.retry_after if isinstance(error, HttpStatusError) else None
            until = at + max(wait, int((asked or 0) * 1_000_000))
            result = Result.VANISHED if gone else Result.REFUSED
            return StatusWriteAttempt(
                desired,
                result,
                str(error),
                Micros(until),
                failures + 1,
                answered=isinstance(error, HttpStatusError),
            )
        return StatusWriteAttempt(desired, Result.APPLIED, "", Micros(at + _ECHO))
