"""What an object of the API server says of itself: who it is, whose it is, since when.

Owns these fields as they are served, typed. Values that are merely odd are kept as they are.
"""

import msgspec


class OwnerReference(msgspec.Struct, frozen=True):
    """An owner. The one with `controller` is who makes another when this one goes."""

    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.ObjectMeta, as far as the rebalancer uses it. Times are RFC 3339."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def place(self) -> str:
        """For a sentence."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
