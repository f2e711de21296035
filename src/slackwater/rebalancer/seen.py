"""What the readers bring: objects of the API server, and numbers of Prometheus or metrics.k8s.io.

Owns these values; the readers make them, the pure parts take them. A reader that cannot say
something brings a Problem with its one sentence, never a guess.
"""

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.fleet import Aim, Cores, LastRotation, Scaling, WorkloadName
from slackwater.rebalancer.reason import Reason


class Problem(msgspec.Struct, frozen=True):
    """Why a workload cannot be judged: the word, and the sentence for people."""

    reason: Reason
    because: str


class NoAutoscaler(Problem, frozen=True):
    """No HPA scales it: neither a target nor a wanted number of pods is known."""


class ContainerAmounts(msgspec.Struct, frozen=True):
    """Of the pod's spec: regular containers, and init containers that run on (sidecars)."""

    name: str
    request: Cores | Gap
    limit: Cores | Gap


class LivePod(msgspec.Struct, frozen=True):
    """A pod as the API server has it. `started`: seconds since 1970. `held_back`: an annotation,
    or that nobody would replace it; empty where it may go. `whole`: what the pod states for itself
    as a whole, which the HPA takes before its containers'; None where it states nothing."""

    name: str
    uid: str
    node: str
    started: float
    containers: tuple[ContainerAmounts, ...]
    running: bool = True
    ready: bool = True
    terminating: bool = False
    held_back: str = ""
    whole: ContainerAmounts | None = None


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget: how many more of these pods may go now."""

    name: str
    allowed: int
    pods: frozenset[str]


class WorkloadSeen(msgspec.Struct, frozen=True):
    """One workload and its pods, by the owner chain. `opted_out`: which annotation of the workload
    says so, or what else makes a rotation useless; empty where it may be rotated. `last` is a Gap
    where the annotation cannot be read: it was rotated, nobody knows when, so it cools down.
    `budgets`: those that cover some of its pods; a Gap where they may not be seen."""

    workload: WorkloadName
    api_version: str
    uid: str
    resource_version: str
    pods: tuple[LivePod, ...]
    aim: Aim | Problem
    scaling: Scaling
    opted_out: str = ""
    last: LastRotation | Gap | None = None
    budgets: tuple[Budget, ...] | Gap = ()


class NamespaceUsage(msgspec.Struct, frozen=True):
    """By (pod, container). `usage`: a Gap where the number means nothing. `requests`: empty where
    the source has none, as metrics.k8s.io. `notes`: sentences for people about an answer that
    counts all the same (a warning of Prometheus, series that were left out)."""

    usage: dict[tuple[str, str], Cores | Gap]
    requests: dict[tuple[str, str], Cores]
    notes: tuple[str, ...] = ()


class Lag(msgspec.Struct, frozen=True):
    """Of a consumer group, as one number, and how it was found. `unsettled`: why the number does
    not count now (the group hands its partitions out anew); empty where it does.
    `static_members`: consumers with a name of their own (group.instance.id), as far as is known."""

    messages: int
    source: str
    unsettled: str = ""
    static_members: int = 0
