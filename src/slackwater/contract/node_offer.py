"""The extended resources that this agent offers on its Node, and which of them are its own.

An annotation of ours, written in the same request, says which resources this agent set: another
program, such as a crane-agent that still runs, may use the same names, and what it set is not
removed. The kubelet copies an extended resource's capacity to what is allocatable, and zeroes both
when it starts on a node without device plug-ins (reconcileExtendedResource in
pkg/kubelet/kubelet_node_status.go): both are written, and both are compared.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slackwater.contract.document import Field, member
from slackwater.contract.kubernetes import optional_text
from slackwater.contract.pod_resources import read_amounts
from slackwater.model.elastic import BATCH_CPU, BATCH_MEMORY, ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.problem import InvalidError

#: Names of the resources that are ours, with a comma.
ANNOTATION = "slackwater.io/oversold"
_MILLI_PER_CORE = 1000
#: Nothing else may be written: charts/slackwater/templates/admission-node.yaml says the same.
OFFERABLE = (ELASTIC_CPU, ELASTIC_MEMORY, BATCH_CPU, BATCH_MEMORY)


class NodeOffer(msgspec.Struct, frozen=True):
    """Amounts by name, as the Node should show them."""

    amounts: Mapping[str, int] = {}


NO_OFFER = NodeOffer()


class SeenOffer(msgspec.Struct, frozen=True):
    """What the Node shows of the resources that may be offered, and which of them this agent set.
    One whose capacity and allocatable amount differ shows nothing certain, which is None."""

    shown: Mapping[str, int | None] = {}
    owned: frozenset[str] = frozenset()

    def differs(self, wanted: NodeOffer) -> bool:
        return self.owned != wanted.amounts.keys() or any(
            self.shown.get(name) != amount for name, amount in wanted.amounts.items()
        )

    def of_ours(self) -> NodeOffer:
        """What this agent, or its earlier run, offers."""
        return NodeOffer({name: self.shown.get(name) or 0 for name in sorted(self.owned)})


def read_seen_offer(node: object) -> SeenOffer:
    """Of a Node object. What cannot be read is not there."""
    field = Field("Node", "", node)
    try:
        owned = frozenset(_annotation(field).split(",")) & frozenset(OFFERABLE)
        status = member(field, "status")
        capacity, allocatable = (
            {} if status is None else read_amounts(member(status, key))
            for key in ("capacity", "allocatable")
        )
    except InvalidError:
        return SeenOffer()
    shown: dict[str, int | None] = {}
    for name in OFFERABLE:
        one, other = capacity.get(name), allocatable.get(name)
        if one is not None or other is not None:
            shown[name] = _units(name, one) if isinstance(one, int) and one == other else None
    return SeenOffer(shown, owned)


def _units(name: str, amount: int) -> int | None:
    """As the Node counts it: amounts of CPU are read in milliCPU."""
    whole, rest = divmod(amount, _MILLI_PER_CORE) if name == ELASTIC_CPU else (amount, 0)
    return None if rest else whole


def _annotation(node: Field) -> str:
    metadata = member(node, "metadata")
    annotations = None if metadata is None else member(metadata, "annotations")
    return "" if annotations is None else optional_text(member(annotations, ANNOTATION))


def offer_patch(wanted: NodeOffer, owned: Iterable[str]) -> dict[str, object]:
    """A merge patch for the Node's status that names these resources and no others: what is ours
    and not wanted any more is removed."""
    amounts: dict[str, str | None] = dict.fromkeys(sorted(owned))
    amounts |= {name: str(amount) for name, amount in wanted.amounts.items()}
    return {
        "metadata": {"annotations": {ANNOTATION: ",".join(sorted(wanted.amounts)) or None}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
