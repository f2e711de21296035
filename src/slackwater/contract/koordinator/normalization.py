"""Koordinator's CPU normalization and resource amplification: how much a CPU of a node is worth.

    normalization ratio   by the node's CPU model, hyper-threads and turbo, or a default
    amplification ratio   what is configured for cpu, or 1, times the normalization ratio

Ratios are kept in hundredths, as annotations show them: every step of 0.01 counts, and nothing is
lost by floating point. A CPU of the slowest model is worth 1.00, so no ratio is below that.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, NewType

import msgspec
from msgspec import Meta, field

from slackwater.contract.decoding import BOOL_WANTED, parse_bool, read_struct
from slackwater.contract.document import Field, Spelling, parse_json
from slackwater.contract.koordinator.node_strategy import ClusterStrategy, read_strategies
from slackwater.contract.kubernetes import ConfigMap
from slackwater.contract.schema import BOUND
from slackwater.model.gap import Gap
from slackwater.model.problem import DocumentName, InvalidError, Problem, quoted
from slackwater.model.units import Ratio, parse_quantity

NORMALIZATION_KEY = "cpu-normalization-config"
AMPLIFICATION_KEY = "resource-amplification-config"
ENABLED_LABEL = "node.koordinator.sh/cpu-normalization-enabled"
RATIO_ANNOTATION = "node.koordinator.sh/cpu-normalization-ratio"
AMPLIFICATION_ANNOTATION = "node.koordinator.sh/resource-amplification-ratio"
RAW_ALLOCATABLE_ANNOTATION = "node.koordinator.sh/raw-allocatable"
#: On the node's NodeResourceTopology.
BASIC_INFO_ANNOTATION = "node.koordinator.sh/cpu-basic-info"

Hundredths = NewType("Hundredths", int)
ONE = Hundredths(100)
_LOWEST, _HIGHEST = 1.0, 5.0
_RATIO_WANTED = "a number from 1.00 to 5.00, 1.00 being the slowest CPU model"
_AMPLIFIED_WANTED = "a number of at least 1.00"
_CPU = "cpu"
_UNCHANGED = Ratio(1)
_PLAIN_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,18})?", re.ASCII)

_Ratio = Annotated[float, Meta(ge=_LOWEST, le=_HIGHEST, extra={BOUND: _RATIO_WANTED})]


class ModelRatios(msgspec.Struct, frozen=True, rename="camel"):
    """The ratios of one CPU model, by what is switched on in the machine."""

    base_ratio: _Ratio | None = None
    hyper_thread_enabled_ratio: _Ratio | None = None
    turbo_enabled_ratio: _Ratio | None = None
    hyper_thread_turbo_enabled_ratio: _Ratio | None = None


class NormalizationStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """Whether CPUs are normalized, and by which ratios; None where it is not stated."""

    enable: bool | None = None
    default_ratio: _Ratio | None = None
    ratio_model: dict[str, ModelRatios] = {}


class AmplificationStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """By how much allocatable resources are multiplied, besides normalization."""

    enable: bool | None = None
    resource_amplification_ratio: dict[
        str, Annotated[float, Meta(ge=0, le=1000, extra={BOUND: "a number from 0 to 1000"})]
    ] = {}


class CpuBasicInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node's agent tells about its CPUs. False and empty values are left out."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    cat_l3_cbm_mask: str = field(default="", name="catL3CbmMask")
    vendor_id: str = field(default="", name="vendorID")


class RatioChoice(msgspec.Struct, frozen=True):
    """A node's normalization ratio and where it comes from. It is 1.00 where it is off."""

    ratio: Hundredths
    enabled: bool
    source: str


def read_normalization(config_map: ConfigMap) -> ClusterStrategy[NormalizationStrategy]:
    return read_strategies(config_map, NORMALIZATION_KEY, NormalizationStrategy())


def read_amplification(config_map: ConfigMap) -> ClusterStrategy[AmplificationStrategy]:
    return read_strategies(config_map, AMPLIFICATION_KEY, AmplificationStrategy())


def read_basic_info(annotations: Mapping[str, str], node: str) -> CpuBasicInfo | Gap:
    """What the annotations of a node's NodeResourceTopology say about its CPUs."""
    source = DocumentName("", "NodeResourceTopology", "", node)
    if BASIC_INFO_ANNOTATION not in annotations:
        return Gap(f"{source} has no annotation {BASIC_INFO_ANNOTATION}")
    try:
        path = f"metadata.annotations[{BASIC_INFO_ANNOTATION}]"
        stated = parse_json(annotations[BASIC_INFO_ANNOTATION], source, path)
        return read_struct(Field(source, path, stated, Spelling.ANY_CASE), CpuBasicInfo)
    except InvalidError as error:
        return Gap(str(error))


def choose_ratio(
    strategy: NormalizationStrategy, where: str, label: str | None, info: CpuBasicInfo | Gap
) -> RatioChoice | Gap:
    """The ratio of one node. `label` is what its label says about being enabled: it counts before
    the strategy, which stands at `where`. A Gap says why there is none: nothing changes then."""
    enabled = strategy.enable is True
    if label is not None:
        said = parse_bool(label)
        if said is None:
            return Gap(Problem(f"label {ENABLED_LABEL}", quoted(label), BOOL_WANTED).sentence())
        enabled = said
    if not enabled:
        by = f"label {ENABLED_LABEL}" if label is not None else f"enable of {where}"
        return RatioChoice(ONE, False, f"{by} is not true")
    found = info if isinstance(info, Gap) else _ratio_of_model(strategy, info, where)
    if isinstance(found, Gap) and strategy.default_ratio is not None:
        ratio = to_hundredths(strategy.default_ratio)
        return RatioChoice(ratio, True, f"defaultRatio of {where}, because {found.reason}")
    return found


def _ratio_of_model(
    strategy: NormalizationStrategy, info: CpuBasicInfo, where: str
) -> RatioChoice | Gap:
    """No ratio stands in for another: a machine with hyper-threads is not one without."""
    ratios = strategy.ratio_model.get(info.cpu_model)
    if ratios is None:
        return Gap(f"ratioModel of {where} has no CPU model {quoted(info.cpu_model)}")
    key = RATIO_KEYS[info.hyper_thread_enabled, info.turbo_enabled]
    ratio = msgspec.to_builtins(ratios).get(key)
    path = f"ratioModel[{quoted(info.cpu_model)}].{key} of {where}"
    return (
        Gap(f"{path} is missing")
        if ratio is None
        else RatioChoice(to_hundredths(ratio), True, path)
    )


#: By whether hyper-threads and turbo are on.
RATIO_KEYS = {
    (False, False): "baseRatio",
    (True, False): "hyperThreadEnabledRatio",
    (False, True): "turboEnabledRatio",
    (True, True): "hyperThreadTurboEnabledRatio",
}


def to_hundredths(ratio: float) -> Hundredths:
    """As "%.2f" rounds it, so that annotations are Koordinator's to the letter."""
    return Hundredths(int(f"{ratio:.2f}".replace(".", "")))


def format_ratio(ratio: Hundredths) -> str:
    return f"{ratio // 100}.{ratio % 100:02d}"


def parse_ratio(text: str, node: str) -> Hundredths | Gap:
    """A ratio annotation. It may have been written by hand: more digits than two are rounded, and
    what is out of bounds is refused."""
    source = DocumentName("", "Node", "", node)
    problem = Problem(
        f"metadata.annotations[{RATIO_ANNOTATION}]", quoted(text), _RATIO_WANTED, document=source
    )
    try:
        number = float(text) if _PLAIN_NUMBER.fullmatch(text) else math.nan
    except ValueError:
        number = math.nan
    if not _LOWEST <= number <= _HIGHEST:
        return Gap(problem.sentence())
    return to_hundredths(number)


def amplification_ratios(
    strategy: AmplificationStrategy, normalization: Hundredths | None
) -> dict[str, Hundredths] | Gap:
    """By resource, sorted; empty where nothing is amplified. Exact products, rounded once."""
    configured = strategy.resource_amplification_ratio if strategy.enable else {}
    exact = {name: parse_quantity(repr(ratio)) for name, ratio in configured.items()}
    if normalization is not None:
        original = exact.get(_CPU, _UNCHANGED)
        original = original if original.numerator else _UNCHANGED
        product = Ratio(original.numerator * normalization, original.denominator * 100)
        if product.numerator > product.denominator:
            exact[_CPU] = product
    for name, ratio in sorted(exact.items()):
        if ratio.numerator < ratio.denominator:
            path = f"resourceAmplificationRatio[{quoted(name)}]"
            return Gap(Problem(path, quoted(configured[name]), _AMPLIFIED_WANTED).sentence())
    return {name: _nearest_hundredth(exact[name]) for name in sorted(exact)}


def _nearest_hundredth(ratio: Ratio) -> Hundredths:
    return Hundredths((200 * ratio.numerator + ratio.denominator) // (2 * ratio.denominator))


def format_amplification(ratios: Mapping[str, Hundredths]) -> str:
    """The annotation's JSON, keys sorted, two decimals: {"cpu":1.80,"memory":2.50}."""
    pairs = (
        f"{msgspec.json.encode(name).decode()}:{format_ratio(ratio)}"
        for name, ratio in sorted(ratios.items())
    )
    return f"{{{','.join(pairs)}}}"


def amplify(raw: int, ratio: Hundredths) -> int:
    """An amount of a node in its amplified unit: exact, and rounded up as the webhook rounds it
    (amplification.multiply): 3 CPUs at 1.13 are 3390m."""
    return Ratio(ratio, 100).of(raw)
