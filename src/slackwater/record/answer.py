"""The answer of `slackwater explain`, as values: the stable form behind -o json and -o yaml."""

from collections.abc import Mapping

import msgspec

from slackwater.record.view import API_VERSION


class Reason(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy looked at, what it saw, and what it held that against."""

    signal: str
    seen: str
    limit: str


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """One policy's part in a value. `after` is the value once this part was applied."""

    policy: str
    verb: str
    value: str
    because: Reason
    after: str = ""


class Silence(msgspec.Struct, frozen=True, rename="camel"):
    """A policy that changes nothing now, and why. `course` is off, held, released or acted: it
    has nothing to do."""

    policy: str
    reason: str
    since: str | None = None
    course: str = "held"


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """How the last attempt to write the knob ended."""

    result: str
    value: str
    at: str
    detail: str = ""


class Intrusion(msgspec.Struct, frozen=True, rename="camel"):
    """When somebody else last wrote the knob, and what we made of it."""

    at: str
    text: str


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One knob; or, where `knob` is null, why nothing happened to the target.

    Values are spelled as Kubernetes does, 600m, or "unlimited"; null is "not known". `since` is
    when the value was last set, for an adopted one since when it is ours.
    """

    api_version: str = API_VERSION
    kind: str = "Explanation"
    target: str
    level: str
    knob: str | None = None
    file: str | None = None
    now: str | None = None
    baseline: str | None = None
    granted: str | None = None
    since: str | None = None
    clipped_by: str | None = None
    contributions: tuple[Part, ...] = ()
    holds: tuple[Silence, ...] = ()
    path: str | None = None
    namespace: str | None = None
    pod: str | None = None
    contest: str | None = None
    yielded_until: str | None = None
    adopted: bool = False
    numbers: Mapping[str, Mapping[str, int]] = {}
    outcome: Attempt | None = None
    last_drift: Intrusion | None = None
    remarks: tuple[str, ...] = ()
