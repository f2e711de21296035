"""Faces of a node in a few words."""

from slackwater.contract.node_report import AgentCondition, NodeReport, NodeStatusPatch
from slackwater.model.units import UNLIMITED, MilliCpu, Unlimited

GRAIN = MilliCpu(100)


def status_patch(
    *,
    quota: int | Unlimited | None = UNLIMITED,
    used: int | None = 0,
    holding: int | None = 1,
    status: str = "True",
    since: str = "",
    message: str = "values are held",
    reason: str = "Acting",
    **report: object,
) -> NodeStatusPatch:
    amount = MilliCpu(quota) if isinstance(quota, int) else quota
    told = NodeReport(
        version="1",
        quota=amount,
        used=None if used is None else MilliCpu(used),
        holding=holding,
        **report,  # type: ignore[arg-type]
    )
    return NodeStatusPatch(told, AgentCondition(status, reason, message, since))
