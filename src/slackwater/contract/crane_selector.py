"""Label selectors as a typed part of an object.

Owns the wire format; what it means is contract.label_selector's.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.label_selector import LabelSelector, Operator, Requirement, flaw
from slackwater.contract.schema import BOUND
from slackwater.model.problem import Problem, below

_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LabelValue = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=rf"^({_WORD})?\Z",
        extra={BOUND: "a label's value: at most 63 letters, digits, '-', '_' and '.'"},
    ),
]
LabelKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=317,
        pattern=rf"^([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_WORD}\Z",
        extra={BOUND: "a label's key such as team or example.com/team"},
    ),
]


class Expression(msgspec.Struct, frozen=True):
    """One condition on labels."""

    key: Annotated[LabelKey, Meta(description="The label's key.")]
    operator: Annotated[
        Operator, Meta(description="How the label's value relates to the values given.")
    ]
    values: Annotated[
        tuple[LabelValue, ...],
        Meta(description="With In and NotIn: at least one. Otherwise: none.", max_length=64),
    ] = ()


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A label selector; all of its conditions must hold. An empty one selects everything."""

    match_labels: Annotated[
        dict[str, LabelValue],
        Meta(description="Labels that must be there, with these values.", max_length=64),
    ] = {}
    match_expressions: Annotated[
        tuple[Expression, ...], Meta(description="Conditions on labels.", max_length=16)
    ] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return LabelSelector(tuple(self._requirements(""))).selects(labels)

    def flaw(self, where: str) -> Problem | None:
        """What makes Kubernetes refuse it; None if nothing does."""
        return flaw(LabelSelector(tuple(self._requirements(where))))

    def _requirements(self, where: str) -> Iterator[Requirement]:
        for key, value in self.match_labels.items():
            path = below(f"{where}.matchLabels", key)
            yield Requirement(path, key, Operator.IN.value, (value,))
        for place, each in enumerate(self.match_expressions):
            path = f"{where}.matchExpressions[{place}]"
            yield Requirement(path, each.key, each.operator.value, each.values)
