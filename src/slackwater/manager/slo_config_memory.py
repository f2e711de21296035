"""The ConfigMap slo-controller-config as it is in force: the last good one, also where it is gone.

A ConfigMap that is deleted and made again, as `kubectl replace --force` does, must not move every
node's ratio twice: only one that stays away takes the ratios with it.
"""

import msgspec

from slackwater.contract.koordinator.slo_config import (
    SloConfig,
    SloConfigName,
    read_slo_config,
)
from slackwater.contract.kubernetes import ConfigMap
from slackwater.kube.informer import InformerView
from slackwater.model.units import Micros

#: For how long a ConfigMap must be gone.
GONE_AFTER = Micros(60_000_000)


class SloConfigObject(msgspec.Struct, frozen=True):
    """The ConfigMap as it came from the API server."""

    namespace: str
    name: str
    uid: str
    data: dict[str, str]


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""


class _SloConfigMap(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] | None = None


def read_slo_config_object(raw: msgspec.Raw | bytes) -> SloConfigObject:
    found = msgspec.json.decode(raw, type=_SloConfigMap)
    meta = found.metadata
    return SloConfigObject(meta.namespace, meta.name, meta.uid, found.data or {})


class SloConfigState(msgspec.Struct, frozen=True):
    """`found` is the object, None where it is not there; `gone_at` since when. `config` is None
    as long as nothing may be concluded: then nothing changes."""

    config: SloConfig | None = None
    found: SloConfigObject | None = None
    gone_at: Micros | None = None

    @property
    def is_invalid(self) -> bool:
        """Whether a key says something that cannot be read."""
        return self.found is not None and self.config is not None and bool(self.config.problems)


def follow(
    before: SloConfigState, found: SloConfigObject | None, name: SloConfigName, at: Micros
) -> SloConfigState:
    """The next state."""
    if found is not None:
        if found == before.found:
            return before
        config_map = ConfigMap(found.namespace, found.name, found.data)
        last = before.config if before.config and not before.config.absent else None
        return SloConfigState(read_slo_config(config_map, name, last), found)
    gone_at = at if before.gone_at is None else before.gone_at
    if at - gone_at < GONE_AFTER:
        return SloConfigState(before.config, None, gone_at)
    return SloConfigState(read_slo_config(None, name), None, gone_at)


class SloConfigMemory:
    """Guards what is in force. Followers keep it too: one may lead at any time."""

    def __init__(self, name: SloConfigName) -> None:
        self.name = name
        self._state = SloConfigState()

    def look(self, view: InformerView[SloConfigObject], at: Micros) -> SloConfigState:
        """Of a ConfigMap that cannot be decoded the last good one stays in the view."""
        if view.synced:
            found = view.items.get(f"{self.name.namespace}/{self.name.name}")
            self._state = follow(self._state, found, self.name, at)
        return self._state
