"""The ConfigMap slo-controller-config: what it says about the worth of CPUs, key by key.

A key that cannot be read leaves the last one that could in force, and says so; the other key counts
as it stands. A key that is not there switches its feature off.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from slackwater.contract.koordinator.node_strategy import (
    CONFIG_MAP,
    NAMESPACE,
    ClusterStrategy,
)
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_KEY,
    NORMALIZATION_KEY,
    AmplificationStrategy,
    NormalizationStrategy,
    read_amplification,
    read_normalization,
)
from slackwater.contract.kubernetes import ConfigMap
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError

S = TypeVar("S", bound=msgspec.Struct)

#: None: the key is not there. A Gap: it cannot be read, and nothing is known of what was before.
NormalizationStrategies = ClusterStrategy[NormalizationStrategy] | Gap | None
AmplificationStrategies = ClusterStrategy[AmplificationStrategy] | Gap | None


class SloConfigName(msgspec.Struct, frozen=True):
    """Where the ConfigMap is. Koordinator's flags for that have the same names and defaults."""

    namespace: str = NAMESPACE
    name: str = CONFIG_MAP

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"


class SloConfig(msgspec.Struct, frozen=True):
    """What is in force. `problems` says of a key why what it says now is not, and `warnings` of
    entries that are for no node. `absent`: there is no such ConfigMap."""

    source: SloConfigName = SloConfigName()
    normalization: NormalizationStrategies = None
    amplification: AmplificationStrategies = None
    problems: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()
    absent: bool = False

    def why_not(self, key: str) -> str:
        """Why a key that is not there switches its feature off."""
        return f"there is no {self.source}" if self.absent else f"{self.source} has no {key}"


def read_slo_config(
    found: ConfigMap | None, source: SloConfigName, before: SloConfig | None = None
) -> SloConfig:
    """`found` is None where there is no such ConfigMap; `before` is what was in force."""
    if found is None:
        return SloConfig(source, absent=True)
    problems: dict[str, str] = {}
    normalization = _read(found, NORMALIZATION_KEY, read_normalization, problems)
    amplification = _read(found, AMPLIFICATION_KEY, read_amplification, problems)
    if before is not None:
        normalization = before.normalization if isinstance(normalization, Gap) else normalization
        amplification = before.amplification if isinstance(amplification, Gap) else amplification
    warnings = tuple(
        each
        for strategies in (normalization, amplification)
        if isinstance(strategies, ClusterStrategy)
        for each in strategies.warnings
    )
    return SloConfig(source, normalization, amplification, problems, warnings)


def _read(
    found: ConfigMap,
    key: str,
    read: Callable[[ConfigMap], ClusterStrategy[S]],
    problems: dict[str, str],
) -> ClusterStrategy[S] | Gap | None:
    if key not in found.data:
        return None
    try:
        return read(found)
    except InvalidError as error:
        problems[key] = str(error)
        return Gap(str(error))
