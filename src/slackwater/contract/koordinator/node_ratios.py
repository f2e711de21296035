"""What the model makes of one node: the annotations that should stand there, or why they stay.

The manager writes what comes out of here; `slackwater normalize plan` and `slackwater status` show
it. What cannot be decided changes nothing. Nor does a smaller ratio with which the node's pods
would request more than it has: the kubelet rejects pods that do not fit when it starts again.
"""

from collections.abc import Callable, Mapping

import msgspec

from slackwater.contract.decoding import BOOL_WANTED, parse_bool
from slackwater.contract.document import Field, members, parse_json
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    ENABLED_LABEL,
    NORMALIZATION_KEY,
    ONE,
    RATIO_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
    AmplificationStrategy,
    CpuBasicInfo,
    Hundredths,
    RatioChoice,
    amplification_ratios,
    amplify,
    choose_ratio,
    format_amplification,
    format_ratio,
    parse_ratio,
    to_hundredths,
)
from slackwater.contract.koordinator.slo_config import SloConfig
from slackwater.contract.kubernetes import is_true, milli_cpu, size
from slackwater.model.gap import Gap
from slackwater.model.problem import DocumentName, InvalidError, Problem, quoted

#: Lets a ratio be cut though the node's pods request more than it would have then.
FORCE_ANNOTATION = "node.slackwater.io/force-normalization"
#: Type of the Node's condition that says why a ratio is held back; absent where nothing is. The
#: admission policies of the chart name it too.
HELD_CONDITION = "NormalizationHeld"
#: Those that are read here.
NODE_ANNOTATIONS = (
    RATIO_ANNOTATION,
    AMPLIFICATION_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
    FORCE_ANNOTATION,
)
#: What is amplified of a Node: cpu in milliCPU, memory in bytes.
CPU, MEMORY = "cpu", "memory"
Amounts = Mapping[str, int]
_GIB = 1 << 30
#: No ratio is larger: what may be configured times the largest normalization ratio.
_LARGEST = 5000


class NodeFacts(msgspec.Struct, frozen=True):
    """What is known of a node. `allocatable` is as its status shows it, amplified or not; `info` is
    of its NodeResourceTopology."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    allocatable: Amounts = {}
    info: CpuBasicInfo | Gap = Gap("")


class NodeRatios(msgspec.Struct, frozen=True):
    """What should stand on one node.

    `ratio` is the one in force afterwards; None where there is none, and none can be chosen.
    `annotations` are those to be written, None being one that goes; what is not among them stays.
    `problem` says why something stays that should not, `refused` that a cut was. `raw` and
    `amplified` are the node's allocatable amounts with these ratios.
    """

    name: str
    enabled: bool | None
    ratio: Hundredths | None
    source: str
    annotations: Mapping[str, str | None] = {}
    amplification: Mapping[str, Hundredths] = {}
    raw: Amounts = {}
    amplified: Amounts = {}
    problem: str = ""
    refused: bool = False

    @property
    def takes_part(self) -> bool:
        return bool(self.enabled or self.amplification or self.problem)


def decide_ratios(
    config: SloConfig, node: NodeFacts, requested: Callable[[], Amounts]
) -> NodeRatios:
    """`requested` sums up what the node's pods request; it is asked only where a ratio is cut."""
    choice = _choose(config, node)
    standing = standing_ratio(node)
    problems: list[str] = []
    annotations: dict[str, str | None] = {}
    if isinstance(choice, Gap):
        problems.append(choice.reason)
        enabled, ratio, source = None, standing, "what stands on the Node"
    else:
        enabled, ratio, source = choice.enabled, choice.ratio, choice.source
        if enabled or ENABLED_LABEL in node.labels or RATIO_ANNOTATION in node.annotations:
            annotations[RATIO_ANNOTATION] = format_ratio(choice.ratio)
        if config.normalization is None and is_true(node.labels, ENABLED_LABEL):
            problems.append(f"label {ENABLED_LABEL} is true, but {choice.source}")
    amplified = _amplification(config, node, ratio)
    if isinstance(amplified, Gap):
        problems += (each for each in (amplified.reason,) if each and each not in problems)
        ratios = _standing_amplification(node)
    else:
        ratios = amplified
        annotations[AMPLIFICATION_ANNOTATION] = format_amplification(ratios) if ratios else None
    wanted = NodeRatios(node.name, enabled, ratio, source, annotations, ratios)
    return _guarded(_with_amounts(wanted, node), node, requested, problems)


def _choose(config: SloConfig, node: NodeFacts) -> RatioChoice | Gap:
    label = node.labels.get(ENABLED_LABEL)
    if label is not None and parse_bool(label) is None:
        return Gap(Problem(f"label {ENABLED_LABEL}", quoted(label), BOOL_WANTED).sentence())
    if config.normalization is None:
        return RatioChoice(ONE, False, config.why_not(NORMALIZATION_KEY))
    if isinstance(config.normalization, Gap):
        return config.normalization
    strategy, where = config.normalization.for_node(node.labels)
    return choose_ratio(strategy, where, label, node.info)


def standing_ratio(node: NodeFacts) -> Hundredths | None:
    """None where there is none, or none that can be read."""
    text = node.annotations.get(RATIO_ANNOTATION)
    found = None if text is None else parse_ratio(text, node.name)
    return None if isinstance(found, Gap) else found


def _amplification(
    config: SloConfig, node: NodeFacts, ratio: Hundredths | None
) -> Mapping[str, Hundredths] | Gap:
    """An empty Gap where the reason is known already."""
    strategies = config.amplification
    if isinstance(strategies, Gap):
        return strategies
    if ratio is None and RATIO_ANNOTATION in node.annotations:
        return Gap("")
    if strategies is None:
        return amplification_ratios(AmplificationStrategy(), ratio)
    strategy, where = strategies.for_node(node.labels)
    found = amplification_ratios(strategy, ratio)
    return Gap(f"{found.reason} ({where})") if isinstance(found, Gap) else found


def _standing_amplification(node: NodeFacts) -> Mapping[str, Hundredths]:
    """As far as it can be read; another program may have written it."""
    try:
        found = parse_json(node.annotations.get(AMPLIFICATION_ANNOTATION, "{}"), "")
    except InvalidError:
        return {}
    stated = found.items() if isinstance(found, dict) else ()
    return {
        name: to_hundredths(value)
        for name, value in sorted(stated)
        if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= _LARGEST
    }


def raw_allocatable(node: NodeFacts) -> Amounts | Gap:
    """What the kubelet offers: the annotation that the webhook keeps of it, and where there is
    none, the node's allocatable amounts themselves."""
    text = node.annotations.get(RAW_ALLOCATABLE_ANNOTATION)
    if text is None:
        return node.allocatable
    source = DocumentName("", "Node", "", node.name)
    path = f"metadata.annotations[{RAW_ALLOCATABLE_ANNOTATION}]"
    read = {CPU: milli_cpu, MEMORY: size}
    try:
        found = dict(members(Field(source, path, parse_json(text, source, path))))
        return {name: parse(found[name]) for name, parse in read.items() if name in found}
    except InvalidError as error:
        return Gap(str(error))


def _with_amounts(wanted: NodeRatios, node: NodeFacts) -> NodeRatios:
    raw = raw_allocatable(node)
    if isinstance(raw, Gap):
        return wanted
    amplified = {
        name: amplify(amount, wanted.amplification.get(name, ONE)) for name, amount in raw.items()
    }
    return msgspec.structs.replace(wanted, raw=raw, amplified=amplified)


def _guarded(
    wanted: NodeRatios, node: NodeFacts, requested: Callable[[], Amounts], problems: list[str]
) -> NodeRatios:
    refusal = _refusal(wanted, node, requested)
    if refusal:
        ratio, ratios = standing_ratio(node), _standing_amplification(node)
        kept = msgspec.structs.replace(
            wanted, ratio=ratio, amplification=ratios, annotations={}, refused=True
        )
        wanted = _with_amounts(kept, node)
        problems.append(refusal)
    return msgspec.structs.replace(wanted, problem="; ".join(problems))


def _refusal(wanted: NodeRatios, node: NodeFacts, requested: Callable[[], Amounts]) -> str:
    """Why the ratios may not be cut; empty where they are not, or may."""
    before = _standing_amplification(node)
    cut = [
        name
        for name in (CPU, MEMORY)
        if wanted.amplification.get(name, ONE) < before.get(name, ONE)
    ]
    if not cut or is_true(node.annotations, FORCE_ANNOTATION):
        return ""
    raw = raw_allocatable(node)
    if isinstance(raw, Gap):
        return f"{raw.reason}; so it is not known whether its pods would still fit"
    asked = requested()
    for name in cut:
        if asked.get(name, 0) > wanted.amplified.get(name, asked.get(name, 0)):
            return _too_small(name, wanted, before[name], asked[name])
    return ""


def _too_small(name: str, wanted: NodeRatios, before: Hundredths, asked: int) -> str:
    after = wanted.amplification.get(name, ONE)
    has, offered = wanted.raw[name], wanted.amplified[name]
    return (
        f"the amplification ratio of {name} stays {format_ratio(before)}: the node's pods request "
        f"{_amount(name, asked)}, and at {format_ratio(after)} it would have "
        f"{_amount(name, offered)} ({_amount(name, has)} x {format_ratio(after)}); move pods away, "
        f"or force it with the annotation {FORCE_ANNOTATION}=true"
    )


def _amount(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount}m"
    return f"{amount / _GIB:.1f}Gi"
