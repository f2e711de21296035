"""Settings of quota bursts: how far above its quota a pod that asks for it may go."""

from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Percentage, SettingsStruct
from slackwater.model.units import Percent


class QuotaBurstSettings(SettingsStruct, frozen=True):
    """Settings of quota bursts."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether pods whose volcano.sh/enable-quota-burst is true may spend in a "
            "busy period what they left of their quota in quiet ones.",
        ),
    ] = False
    most: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="The most that a burst may be, as a part of the container's quota, "
            "whatever the pod asks for. The kernel refuses a burst above the quota.",
        ),
    ] = Percent(100)
