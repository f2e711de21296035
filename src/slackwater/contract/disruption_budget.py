"""PodDisruptionBudgets of policy/v1: whom they cover, and how many more may go now.

Owns their field paths. An empty selector covers every pod of the namespace, none covers nobody.
"""

import msgspec

from slackwater.contract.label_selector import LabelSelector, Operator, Requirement
from slackwater.contract.object_metadata import Metadata


class Expression(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class PodSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()

    def meaning(self) -> LabelSelector:
        pairs = self.match_labels.items()
        equal = [Requirement("", key, Operator.IN.value, (value,)) for key, value in pairs]
        said = [Requirement("", e.key, e.operator, e.values) for e in self.match_expressions]
        return LabelSelector((*equal, *said))


class BudgetSpec(msgspec.Struct, frozen=True):
    selector: PodSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class DisruptionBudget(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def covers(self, labels: dict[str, str]) -> bool:
        selector = self.spec.selector
        return selector is not None and selector.meaning().selects(labels)
