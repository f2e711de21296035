"""What an answer about the agent is made from: its kept ticks and the loop's own state.

Owns the one way from the agent's clock, which only goes forward, to the time of day.
"""

import datetime as dt
from collections.abc import Callable, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.cluster_link import NO_LINK, ClusterLink
from slackwater.record.journal import TickRecord

API_VERSION = "slackwater.io/v1"


def _never(_ref: CgroupRef, _knob: str) -> None:
    return None


class View(msgspec.Struct, frozen=True):
    """`off` says of each policy that is off why it is. `problems` are the configuration's; `lost`
    is the reason to be blind that is one too: there is no tree of pods. `kept` counts the values
    that stand while the agent is blind, None where nobody counted. `offset` is the time of day, in
    microseconds since 1970, less the agent's clock. `changed` is the journal's."""

    ticks: tuple[TickRecord, ...] = ()
    off: Mapping[str, str] = {}
    problems: tuple[str, ...] = ()
    blind: str = ""
    lost: str = ""
    paused: str = ""
    kept: int | None = None
    offset: Micros = Micros(0)
    version: CgroupVersion | Gap = Gap("the cgroup version is not known here")
    changed: Callable[[CgroupRef, str], Micros | None] = _never
    link: ClusterLink = NO_LINK
    #: All of them, also those that are off.
    policies: tuple[Policy, ...] = POLICIES

    @property
    def latest(self) -> TickRecord | None:
        return self.ticks[-1] if self.ticks else None

    def troubles(self) -> tuple[str, ...]:
        """All that somebody has to see to."""
        return (self.lost, *self.problems) if self.lost else self.problems

    def stamp(self, at: Micros) -> str:
        """RFC 3339, in UTC, to the millisecond."""
        since_1970 = dt.timedelta(microseconds=at + self.offset)
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + since_1970
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
