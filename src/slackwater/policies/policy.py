"""What a policy is: one value, from which settings, explain, doctor and metrics derive.

A new policy is a file with such a value and a line in policies.catalog.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.schema import SettingsStruct
from slackwater.model.cgroup import Level
from slackwater.model.decision import Decision, Remark
from slackwater.model.knob import KnobKey
from slackwater.model.needs import Needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Workload


def concerns_nobody(_: Workload) -> bool:
    return False


def needs_nothing(_settings: object, _memory: object) -> Needs:
    return Needs()


def explain_no_pod(_settings: object, _snapshot: NodeSnapshot, _pod: Workload) -> tuple[str, ...]:
    return ()


def explain_nothing(_settings: object, _snapshot: NodeSnapshot) -> tuple[Remark, ...]:
    return ()


def need_nothing_of_pods(_settings: object, _pods: Sequence[Pod]) -> Needs:
    return Needs()


def list_numbers(numbers: Mapping[str, int]) -> str:
    return "; ".join(f"{name} {value}" for name, value in numbers.items())


class SwitchSettings(SettingsStruct, frozen=True):
    """The settings of a policy that can only be switched on."""

    enabled: Annotated[bool, Meta(description="Whether the policy is on.")] = False


class Policy(msgspec.Struct, frozen=True):
    """`decide(snapshot, memory, settings)` is the policy itself; settings of None switch it off.

    `needs(settings, off)` is what it has to see, given the knobs that cannot be written here.
    Memory and settings are the policy's own types; the tick only keeps and passes them. `settings`
    is an annotated Struct with at least `enabled`: its annotations are what the settings file,
    flags, variables and docs go by.

    `description` says in a few words what it does. `concerns(pod)` is whether the pod asks
    something of this policy, so that `explain` can say why it is off; a pod whose annotation cannot
    be read counts as asking. `knobs` are alternatives: the policy works where all knobs of any one
    of them work, at `level` of the kubelet's tree.
    `explain_numbers` turns the numbers of a decision into one line.
    """

    name: str
    first_memory: Any
    needs: Callable[[Any, frozenset[KnobKey]], Needs]
    decide: Callable[[NodeSnapshot, Any, Any], Decision]
    description: str = ""
    concerns: Callable[[Workload], bool] = concerns_nobody
    knobs: tuple[tuple[str, ...], ...] = ()
    level: Level = Level.CONTAINER
    settings: type[msgspec.Struct] = SwitchSettings
    explain_numbers: Callable[[Mapping[str, int]], str] = list_numbers
    #: Whether all that it reads are the workloads, the knobs of pods and containers, the cgroup
    #: version and the weight formulas: while those are as they were, it is not asked again.
    ignores_counters: bool = False
    #: What it has to see besides in the next tick, by its settings and its memory: what costs too
    #: much to read all the time.
    needs_for_now: Callable[[Any, Any], Needs] = needs_nothing
    #: Settings with what the cluster's objects add to them on a node with these labels and
    #: annotations; a sentence where nothing of it is for this node, and the policy is off.
    bind: (
        Callable[[Any, EnsuranceObjects, Mapping[str, str], Mapping[str, str]], Any | str] | None
    ) = None
    #: The type of such settings, for recordings; None where they are `settings` itself.
    bound_settings: type[msgspec.Struct] | None = None
    #: What it has to see in addition because of these pods: a policy that serves only pods that ask
    #: for something reads nothing until one does.
    needs_of_pods: Callable[[Any, Sequence[Pod]], Needs] = need_nothing_of_pods
    #: Why a pod is touched or not, for `explain`: what a remark in each tick would cost too much to
    #: say of every pod. Of settings as `decide` has them.
    explain_pod: Callable[[Any, NodeSnapshot, Workload], tuple[str, ...]] = explain_no_pod
    #: What `explain` says of the node as it is now: a remark would come and go with its pods.
    explain_node: Callable[[Any, NodeSnapshot], tuple[Remark, ...]] = explain_nothing
    #: What of its memory, of the same type, outlives the agent; given the time of day in seconds.
    keep: Callable[[Any, int], Any] | None = None
    #: Whether what is kept is about values that stand on the node: it is written whenever it
    #: changes, and is over when they are released, the policy goes off, or the machine boots.
    keeps_what_stands: bool = False


class Stateless(msgspec.Struct, frozen=True):
    """The memory of a policy that remembers nothing."""


STATELESS = Stateless()
