"""Statuses into the API server: the only module of the manager that changes a policy object.

Owns the back-off. Writes by server-side apply on the status subresource, so that nobody else's
fields are touched. What was written is not written again before the informer had time to show it,
nor, when somebody undoes it, more often than that.
"""

from collections.abc import Callable, Collection

import msgspec

from slackwater.contract.crane_status import EnsuranceStatus
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.manager.policy_object import PolicyObject
from slackwater.model.plan import Result
from slackwater.model.units import Micros

FIELD_MANAGER = "slackwater-manager"
#: Until what was written comes back through the watch.
_ECHO = Micros(30_000_000)
_FIRST_WAIT, _LONGEST_WAIT = Micros(2_000_000), Micros(300_000_000)
_NOT_FOUND = "NotFound"

#: Applies one status; raises RequestError.
Apply = Callable[[PolicyObject, EnsuranceStatus], None]


class Attempt(msgspec.Struct, frozen=True):
    """The last attempt on one object: of what, how it ended, and before when it is not repeated."""

    wanted: EnsuranceStatus
    result: Result
    detail: str
    until: Micros
    #: How often in a row it failed.
    failures: int = 0
    #: False: no API server answered, so nothing else need be tried now.
    answered: bool = True


def applier(client: Client) -> Apply:
    def apply(policy: PolicyObject, wanted: EnsuranceStatus) -> None:
        body = {
            "apiVersion": policy.resource.api_version,
            "kind": policy.resource.kind,
            # With the uid an object of the same name that came since is not taken for this one.
            "metadata": {"name": policy.name, "uid": policy.uid},
            "status": msgspec.to_builtins(wanted),
        }
        client.apply(
            policy.resource, policy.name, body, manager=FIELD_MANAGER, subresource="status"
        )

    return apply


class StatusWriter:
    """Guards the memory of attempts."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._attempts: dict[str, Attempt] = {}

    def write(self, policy: PolicyObject, wanted: EnsuranceStatus, at: Micros) -> Attempt | None:
        """None where it is too early to try, or to try again."""
        last = self._attempts.get(policy.uid)
        if last is not None and at < last.until and (last.failures or _same(last.wanted, wanted)):
            return None
        attempt = self._attempted(policy, wanted, at, last.failures if last else 0)
        self._attempts[policy.uid] = attempt
        return attempt

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Objects that are gone are not remembered."""
        for gone in self._attempts.keys() - set(uids):
            del self._attempts[gone]

    def next_due(self) -> Micros | None:
        """When the first of those that failed may be tried again."""
        waiting = [each.until for each in self._attempts.values() if each.failures]
        return min(waiting, default=None)

    def settle(self, policy: PolicyObject) -> None:
        """The object says what it should. What failed is not tried again; what was applied stays
        noted, so that somebody who keeps undoing it is answered only every now and then."""
        last = self._attempts.get(policy.uid)
        if last is not None and last.failures:
            del self._attempts[policy.uid]

    def _attempted(
        self, policy: PolicyObject, wanted: EnsuranceStatus, at: Micros, failures: int
    ) -> Attempt:
        try:
            self._apply(policy, wanted)
        except RequestError as error:
            gone = isinstance(error, HttpStatusError) and error.reason == _NOT_FOUND
            wait = min(_FIRST_WAIT << min(failures, 20), _LONGEST_WAIT)
            asked = error.retry_after if isinstance(error, HttpStatusError) else None
            until = at + max(wait, int((asked or 0) * 1_000_000))
            result = Result.VANISHED if gone else Result.REFUSED
            return Attempt(
                wanted,
                result,
                str(error),
                Micros(until),
                failures + 1,
                answered=isinstance(error, HttpStatusError),
            )
        return Attempt(wanted, Result.APPLIED, "", Micros(at + _ECHO))


def _same(one: EnsuranceStatus, other: EnsuranceStatus) -> bool:
    """But for the times, which are taken anew while the object does not show ours yet."""
    return _timeless(one) == _timeless(other)


def _timeless(status: EnsuranceStatus) -> EnsuranceStatus:
    conditions = tuple(
        msgspec.structs.replace(each, last_transition_time="") for each in status.conditions
    )
    return msgspec.structs.replace(status, conditions=conditions)
