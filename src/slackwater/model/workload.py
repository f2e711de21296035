"""What runs on the node: pods and their containers, as far as a policy has to know."""

import msgspec

from slackwater.model.cgroup import CgroupRef, Tier
from slackwater.model.gap import Gap
from slackwater.model.units import Micros, MilliCpu, Unlimited


class Container(msgspec.Struct, frozen=True):
    """One container of any kind: init, sidecar, ephemeral or main. No request is zero."""

    name: str
    ref: CgroupRef | Gap
    request: MilliCpu
    limit: MilliCpu | Unlimited


class Workload(msgspec.Struct, frozen=True):
    """One pod. `request` is what the scheduler counts: sidecars, init containers and overhead
    too. A pod of the tree without an object is called by its uid and promises nothing."""

    uid: str
    name: str
    namespace: str
    tier: Tier
    ref: CgroupRef | Gap
    request: MilliCpu = MilliCpu(0)
    priority: int = 0
    containers: tuple[Container, ...] = ()
    options: dict[str, str] = {}
    terminating_since: Micros | None = None
