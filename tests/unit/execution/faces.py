"""Faces of a node in a few words."""

from slackwater.contract.node_condition import Acting, NodeFace
from slackwater.contract.node_report import NodeReport
from slackwater.model.units import UNLIMITED, MilliCpu, Unlimited

GRAIN = MilliCpu(100)


def face(
    *,
    quota: int | Unlimited | None = UNLIMITED,
    used: int | None = 0,
    holding: int | None = 1,
    status: str = "True",
    since: str = "",
    message: str = "values are held",
    reason: str = "Acting",
    **report: object,
) -> NodeFace:
    amount = MilliCpu(quota) if isinstance(quota, int) else quota
    told = NodeReport(
        version="1",
        quota=amount,
        used=None if used is None else MilliCpu(used),
        holding=holding,
        **report,  # type: ignore[arg-type]
    )
    return NodeFace(told, Acting(status, reason, message, since))
