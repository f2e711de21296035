"""The state of a running agent, as explanations, overviews and the Node's report see it."""

from collections.abc import Callable, Mapping
from itertools import chain

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros, format_age
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.interception import (
    NOT_INTERCEPTED,
    InterceptionState,
    InterceptionWay,
)
from slackwater.record.journal import TickRecord
from slackwater.record.timestamps import format_timestamp
from slackwater.settings.agent_settings import DEFAULTS, AgentSettings

TOLERATED_SILENCE = Micros(15_000_000)


class ClusterLink(msgspec.Struct, frozen=True):
    """`sources` are the kinds of objects that are watched. `writes` counts attempts to write the
    Node by their result; `unwritten` is why the last one failed, and `unsent` why the last event
    did. `lost` counts events that were dropped. `topology` counts writes of the node's
    NodeResourceTopology by their result; `unreported` is why that is not as it should be."""

    sources: Mapping[str, Freshness] = {}
    writes: Mapping[str, int] = {}
    unwritten: str = ""
    unsent: str = ""
    lost: int = 0
    topology: Mapping[str, int] = {}
    unreported: str = ""
    #: What of ours the API server still shows, where nothing is wanted there any more.
    left_there: str = ""

    def lost_touch(self) -> tuple[str, ...]:
        """The sources that could not be watched for a while: a watch that is cut and resumed at
        once does not count."""
        return tuple(
            name
            for name, each in self.sources.items()
            if each.problem and each.age >= TOLERATED_SILENCE
        )

    def remarks(self) -> tuple[str, ...]:
        """One sentence for each problem."""
        unheard = [
            f"nothing was heard of {name} for {format_age(each.age)}: {each.problem}"
            for name, each in self.sources.items()
            if each.problem
        ]
        told = (
            f"the Node's report cannot be written: {self.unwritten}" if self.unwritten else "",
            f"events cannot be sent: {self.unsent}" if self.unsent else "",
            f"the node's topology is not reported: {self.unreported}" if self.unreported else "",
        )
        return (*unheard, *filter(None, told))


#: For an agent without a cluster.
NO_LINK = ClusterLink()


API_VERSION = "slackwater.io/v1"


def _never(_ref: CgroupRef, _knob: str) -> None:
    return None


class RoundState(msgspec.Struct, frozen=True, kw_only=True):
    """How the last round left the loop. `ended` is its end, also if it saw nothing. `problems` are
    the configuration's. `blind` is why the round saw nothing, `blind_because` the bad
    configuration that is the reason; `lost_since` is set if that is
    because the kubelet's cgroup tree is missing, not because objects are. `kept` counts the values
    that stay in place while it is blind. `released_for` is the word by
    which the cluster asked for a release of everything, once every value is back. `ledger` says
    what is wrong with the ledger. `off` has the reason for each policy that is off."""

    ended: Micros | None = None
    problems: tuple[ConfigurationProblem, ...] = ()
    blind: str = ""
    blind_because: tuple[ConfigurationProblem, ...] = ()
    lost_since: Micros | None = None
    paused: str = ""
    released_for: str = ""
    kept: int | None = None
    ledger: tuple[str, ...] = ()
    settings: AgentSettings = DEFAULTS
    off: Mapping[str, str] = {}

    @property
    def lost(self) -> str:
        """Why the kubelet's tree is not seen; empty if it is, or was not looked for."""
        return "" if self.lost_since is None else self.blind


class AgentView(RoundState, frozen=True, kw_only=True):
    """The last round, the ticks in the journal, and what they are shown with. `offset` is the time
    of day, in microseconds since 1970, minus the agent's clock; `last_change` is the journal's."""

    ticks: tuple[TickRecord, ...] = ()
    offset: Micros = Micros(0)
    version: CgroupVersion | Gap = Gap("the cgroup version is not known here")
    last_change: Callable[[CgroupRef, str], Micros | None] = _never
    link: ClusterLink = NO_LINK
    #: All of them, also those that are off.
    policies: tuple[Policy, ...] = POLICIES
    interception: InterceptionState = NOT_INTERCEPTED

    @property
    def latest(self) -> TickRecord | None:
        return self.ticks[-1] if self.ticks else None

    def open_problems(self) -> tuple[str, ...]:
        """Everything that needs somebody's attention."""
        problems = (*(each.sentence() for each in self.problems), *self.ledger)
        return (self.lost, *problems) if self.lost else problems

    def container_starts(self) -> str:
        """How new containers come by their quotas; empty where no policy has any for them."""
        on = self.latest.inputs.policies if self.latest else {}
        concerned = any(
            policy.name in on and policy.ignores_counters and QUOTA.name in chain(*policy.knobs)
            for policy in self.policies
        )
        intercepted = self.interception.way is InterceptionWay.NRI
        return self.interception.title() if concerned or intercepted else ""

    def timestamp(self, at: Micros) -> str:
        """A time of the agent's clock in RFC 3339."""
        return format_timestamp(Micros(at + self.offset))
