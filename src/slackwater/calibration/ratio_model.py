"""From calibrations of several machines to a normalization model: the slowest CPU is worth 1.00."""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from slackwater.calibration.result import API_VERSION, KIND, CalibrationResult
from slackwater.contract.koordinator.node_strategy import CONFIG_MAP
from slackwater.contract.koordinator.normalization import (
    NORMALIZATION_KEY,
    RATIO_KEYS,
    Hundredths,
    format_ratio,
    to_hundredths,
)
from slackwater.model.problem import InvalidError, Problem, quoted

_MOST = Hundredths(500)
_WANTED = "a file that `slackwater calibrate -o json` wrote"


class ModelRatio(msgspec.Struct, frozen=True, rename="camel"):
    """One kind of machine: its score, from so many measurements, and the ratio that follows."""

    cpu_model: str
    key: str
    score: float
    measurements: int
    ratio: Hundredths


def read_result(content: bytes, source: str) -> CalibrationResult:
    """Raises InvalidError."""
    try:
        found = msgspec.json.decode(content, type=CalibrationResult)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidError(Problem(source, f"not one ({error})", _WANTED)) from None
    if found.kind != KIND:
        raise InvalidError(Problem(f"{source}: kind", quoted(found.kind), f"{KIND}: {_WANTED}"))
    if found.api_version != API_VERSION:
        seen = quoted(found.api_version)
        raise InvalidError(Problem(f"{source}: apiVersion", seen, f"{API_VERSION}: {_WANTED}"))
    if not found.machine.cpu_model:
        stated = "null" if found.machine.cpu_model is None else quoted("")
        wanted = "the model that /proc/cpuinfo names: write it by hand"
        raise InvalidError(Problem(f"{source}: machine.cpuModel", stated, wanted))
    if found.score.all <= 0:
        raise InvalidError(Problem(f"{source}: score.all", str(found.score.all), "above 0"))
    return found


def derive_ratios(results: Mapping[str, CalibrationResult]) -> tuple[ModelRatio, ...]:
    """By model and what is switched on, from the score with all CPUs busy: that is what a CPU is
    worth where nodes are full. `results` are by source. Raises InvalidError."""
    _require_same_kernels(results)
    scores: dict[tuple[str, str], list[float]] = {}
    for each in results.values():
        machine = each.machine
        key = RATIO_KEYS[machine.hyper_thread is True, machine.turbo is True]
        scores.setdefault((machine.cpu_model or "", key), []).append(each.score.all)
    medians = {kind: statistics.median(found) for kind, found in scores.items()}
    slowest = min(medians.values())
    ratios = tuple(
        ModelRatio(model, key, score, len(scores[model, key]), to_hundredths(score / slowest))
        for (model, key), score in sorted(medians.items())
    )
    for derived in ratios:
        if derived.ratio > _MOST:
            seen = format_ratio(derived.ratio)
            wanted = "at most 5.00: leave the slowest machines out, or normalize pools apart"
            raise InvalidError(Problem(f"the ratio of {quoted(derived.cpu_model)}", seen, wanted))
    return ratios


def _require_same_kernels(results: Mapping[str, CalibrationResult]) -> None:
    """Scores over other kernels, or another version's, do not compare."""
    (first, pattern), *others = [
        (source, [kernel.kernel for kernel in each.kernels]) for source, each in results.items()
    ]
    for source, names in others:
        if names != pattern:
            wanted = f"those of {first}: {', '.join(pattern)}"
            raise InvalidError(Problem(f"{source}: kernels", ", ".join(names), wanted))


def render_config_map(ratios: Sequence[ModelRatio], namespace: str) -> dict[str, object]:
    """The ConfigMap, with normalization off: nodes are switched on one by one by their label, or
    all by `enable`."""
    model: dict[str, dict[str, float]] = {}
    for each in ratios:
        model.setdefault(each.cpu_model, {})[each.key] = each.ratio / 100
    text = msgspec.json.format(
        msgspec.json.encode({"enable": False, "ratioModel": model}), indent=2
    ).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace},
        "data": {NORMALIZATION_KEY: text},
    }
