"""The status that Slackwater writes on Crane's ensurance objects; Crane itself writes none."""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane_values import Amount

#: The types of the conditions that Slackwater writes.
VALID, ENFORCED = "Valid", "Enforced"


class Truth(enum.Enum):
    """A condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is true of the object or not, as metav1.Condition."""

    type: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=316,
            description="What the condition is about: Valid or Enforced.",
        ),
    ]
    status: Annotated[Truth, Meta(description="Whether it is so.")]
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?\Z",
            description="Why, in one word for programs.",
        ),
    ]
    message: Annotated[str, Meta(max_length=32768, description="Why, in a sentence.")]
    last_transition_time: Annotated[
        str,
        Meta(
            extra_json_schema={"format": "date-time"},
            description="When the status last changed.",
        ),
    ]
    observed_generation: Annotated[
        Amount, Meta(description="The generation of the object that this is about.")
    ] = 0


class EnsuranceStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What Slackwater's manager says about the object."""

    observed_generation: Annotated[
        Amount, Meta(description="The generation of the object that this is about.")
    ] = 0
    summary: Annotated[
        str, Meta(max_length=4096, description="What the object does, in a sentence.")
    ] = ""
    nodes: Annotated[Amount | None, Meta(description="How many nodes it is for.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(
            description="Valid: nothing in it is wrong or missing. Enforced: it is acted on.",
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()


def read_ensurance_status(raw: msgspec.Raw) -> EnsuranceStatus | None:
    """None if the object has no status, or one that is not ours to understand."""
    try:
        return msgspec.json.decode(raw, type=EnsuranceStatus | None)
    except msgspec.DecodeError:
        return None
