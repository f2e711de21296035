"""Settings of the agent itself: its tick, its patience, and what it does about rival writers."""

import enum
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Count, Duration, Permillage, SettingsStruct
from slackwater.model.units import Micros, Permille

_MILLISECOND = 1_000
_SECOND = 1_000_000


class Reading(enum.Enum):
    """How much of the tree is read at each tick."""

    NEEDED = "needed"
    EVERYTHING = "everything"


class TopologyReporting(enum.Enum):
    """Whether the agent keeps its node's NodeResourceTopology."""

    OWN = "own"
    TAKE_OVER = "takeOver"
    #: Not "off", which YAML takes for false.
    NONE = "none"


class AgentSettings(SettingsStruct, frozen=True):
    """Settings of the agent itself."""

    period: Annotated[
        Duration,
        Meta(
            ge=100 * _MILLISECOND,
            le=60 * _SECOND,
            description="How often the agent reads the node and decides. 100ms is one CFS "
            "period: the kernel's throttling counters do not change faster.",
        ),
    ] = Micros(_SECOND)
    hold_for: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=600 * _SECOND,
            description="How long a policy's values stay in force while it cannot read its "
            "inputs. Then they are released: a stale throttle is worse than none.",
        ),
    ] = Micros(30 * _SECOND)
    raise_deadband: Annotated[
        Permillage,
        Meta(
            ge=0,
            le=2,
            description="An increase of a quota by less than this fraction is not written; "
            "decreases always are. 2 ‰ is the smallest step that a policy may take, so a larger "
            "deadband could block an increase for ever.",
        ),
    ] = Permille(1)
    pressure_stall: Annotated[
        Duration,
        Meta(
            ge=5 * _MILLISECOND,
            le=500 * _MILLISECOND,
            description="Where the kernel offers PSI triggers: how long protected work must have "
            "waited for a CPU within 500ms, the kernel's shortest window, to wake the agent "
            "early.",
        ),
    ] = Micros(50 * _MILLISECOND)
    yield_after: Annotated[
        Count,
        Meta(
            ge=2,
            le=100,
            description="After another writer has changed a value this many times in a row, each "
            "within fightWithin of the one before, the agent leaves the value to it.",
        ),
    ] = 5
    fight_within: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=30 * _SECOND,
            description="Two repairs of one value this close together count as a conflict with "
            "another writer. Well below the 60s at which the kubelet resets its tiers, which is "
            "expected and always repaired.",
        ),
    ] = Micros(10 * _SECOND)
    yield_for: Annotated[
        Duration,
        Meta(
            ge=10 * _SECOND,
            le=86_400 * _SECOND,
            description="How long a value is left to the other writer before the agent tries "
            "again.",
        ),
    ] = Micros(600 * _SECOND)
    stalled_after: Annotated[
        Duration,
        Meta(
            ge=10 * _SECOND,
            le=600 * _SECOND,
            description="/healthz fails when no tick has ended for this long, or for three "
            "periods if that is longer, so that the kubelet restarts the agent.",
        ),
    ] = Micros(90 * _SECOND)
    reading: Annotated[
        Reading,
        Meta(
            description="What is read at each tick: what the policies need, or every pod and "
            "container as well, for metrics of all of them. While `slackwater top` runs, "
            "everything is read anyway.",
        ),
    ] = Reading.NEEDED
    topology_report: Annotated[
        TopologyReporting,
        Meta(
            description="Whether the agent keeps its node's NodeResourceTopology, from which the "
            "manager takes the CPU model. own: unless another program manages that object; "
            "takeOver: in any case, for one that Koordinator or NFD left behind; none: it removes "
            "its own.",
        ),
    ] = TopologyReporting.OWN
    crane_metrics: Annotated[
        bool,
        Meta(
            description="Whether /metrics has Crane's names of metrics as well, for dashboards "
            "that were made for crane-agent.",
        ),
    ] = False
    intercept_starts: Annotated[
        bool,
        Meta(
            description="Whether the agent registers with the container runtime (NRI: containerd "
            "1.7 or later, CRI-O 1.26 or later) to set a container's quota before it starts; "
            "otherwise the next tick does. Off by default: whoever can use that socket may change "
            "every container of the node, its mounts and devices included.",
        ),
    ] = False
    kept_ticks: Annotated[
        Count,
        Meta(
            ge=1,
            le=3_600,
            description="How many complete ticks are kept in memory for explain and for "
            "recordings; fewer when every container is read, so that they stay within a few MiB.",
        ),
    ] = 60


DEFAULTS = AgentSettings()
