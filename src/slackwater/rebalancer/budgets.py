"""What disruption budgets will say to the pods that are to go, before one of them goes.

Pure. A look ahead only: the API server decides at each eviction, and may have changed its mind.
"""

from collections.abc import Iterable, Sequence

from slackwater.contract.disruption_budget import DisruptionBudget
from slackwater.contract.owned_pod import OwnedPod
from slackwater.model.gap import Gap
from slackwater.rebalancer.proposal import Candidate, Guard
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.seen import Budget

NAME = "disruption_budget"


def budgets_of(budgets: Iterable[DisruptionBudget], pods: Sequence[OwnedPod]) -> tuple[Budget, ...]:
    """Those that cover at least one of the pods, by name."""
    found = []
    for each in budgets:
        covered = frozenset(p.metadata.name for p in pods if each.covers(p.metadata.labels))
        if covered:
            allowed = max(each.status.disruptions_allowed, 0)
            found.append(Budget(each.metadata.name, allowed, covered))
    return tuple(sorted(found, key=lambda budget: budget.name))


def budget_guard(
    budgets: tuple[Budget, ...] | Gap, batches: Sequence[Sequence[Candidate]]
) -> Guard:
    """Forbids where nobody could go, and where the API server cannot answer."""
    if isinstance(budgets, Gap):
        text = f"not known beforehand, each eviction will tell: {budgets.reason}"
        return Guard(NAME, True, text)
    going = [pod for batch in batches for pod in batch]
    held = {pod.name: [each for each in budgets if pod.name in each.pods] for pod in going}
    for pod, over in held.items():
        if len(over) > 1:
            # eviction.go: "This pod has more than one PodDisruptionBudget".
            names = ", ".join(each.name for each in over)
            text = f"{pod} has several disruption budgets ({names}) and cannot be evicted with them"
            return Guard(NAME, False, text, Reason.KUBERNETES_ERROR)
    concerned = [each for each in budgets if any(each in over for over in held.values())]
    if not concerned:
        return Guard(NAME, True, "none covers these pods")
    told = ", ".join(f"{each.name} lets {each.allowed} more go now" for each in concerned)
    if all(any(each.allowed == 0 for each in over) for over in held.values()):
        return Guard(NAME, False, told, Reason.PDB_BLOCKED)
    if any(_short(each, batch) for each in concerned for batch in batches):
        told += "; a batch has more of its pods, so the rest waits for another run"
    return Guard(NAME, True, told)


def _short(budget: Budget, batch: Sequence[Candidate]) -> bool:
    """Between batches it recovers, as the pods of the one before are replaced; within one it does
    not."""
    return sum(pod.name in budget.pods for pod in batch) > budget.allowed
