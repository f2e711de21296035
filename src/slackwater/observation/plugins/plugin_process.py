"""The process in which one plug-in runs: python -m slackwater.observation.plugins.plugin_process.

Loads the plug-in by the name of its entry point, says what it is, and then answers about one node
after another: a line of JSON each. The plug-in's own output goes to standard error. Where a
function raises or returns nonsense, that part of the answer is a sentence, and the others stand.
"""

import contextlib
import ctypes
import functools
import importlib.metadata
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import msgspec

from slackwater.contract.ensurance_plugin import LoadedPlugin, PluginAnswer
from slackwater.model.ensurance_plugin import ENTRY_POINTS, PluginNode, PluginPod
from slackwater.model.metric import Sample
from slackwater.model.problem import quoted, shorten

#: The kernel ends this process before the agent where memory runs out.
_OOM_SCORE, _NICE = 1000, 10
_PR_SET_PDEATHSIG = 1
#: An order is checked on pods so far apart in it: a cycle of three shows at a distance of two.
_CHECKED = 3
_LONGEST_SENTENCE = 300
MOST_SAMPLES = 10_000

_FIELDS = (
    "name",
    "action_priority",
    "sortable",
    "throttleable",
    "throttle_quantified",
    "evictable",
    "evict_quantified",
)
_FUNCTIONS = {
    "compare": "sortable",
    "throttle_release": "throttle_quantified",
    "evict_release": "evict_quantified",
}


class NonsenseError(Exception):
    """What a plug-in returned cannot be used; str() is a sentence."""


def load_plugin(name: str) -> Any:  # noqa: ANN401 - whatever it is, it is checked
    """Raises NonsenseError."""
    found = [
        each for each in importlib.metadata.entry_points(group=ENTRY_POINTS) if each.name == name
    ]
    if not found:
        raise NonsenseError(f"no installed package has the entry point {name} of {ENTRY_POINTS}")
    try:
        loaded = found[0].load()
        return loaded() if isinstance(loaded, type) or not hasattr(loaded, "name") else loaded
    except Exception as error:  # noqa: BLE001 - it is somebody else's code
        raise NonsenseError(f"it cannot be loaded: {_told(error)}") from None


def describe(plugin: object) -> LoadedPlugin:
    """What it says of itself, and whether it has the functions that this needs."""
    attributes = {name: _plain(getattr(plugin, name, None)) for name in _FIELDS}
    attributes["measures"] = callable(getattr(plugin, "samples", None))
    for function, wanted in _FUNCTIONS.items():
        if attributes[wanted] is True and not callable(getattr(plugin, function, None)):
            told = f"{function} is {quoted(_plain(getattr(plugin, function, None)))}"
            return LoadedPlugin(problem=f"{told}, but must be a function where {wanted} is true")
    return LoadedPlugin(attributes)


def _plain(value: object) -> object:
    """As JSON can say it; another type is named."""
    return value if value is None or isinstance(value, str | int | float) else quoted(value)


def answer(plugin: Any, node: PluginNode) -> PluginAnswer:  # noqa: ANN401
    problems: dict[str, str] = {}

    def ask(function: str, work: Callable[[], Any], otherwise: Any) -> Any:  # noqa: ANN401
        try:
            return work()
        except NonsenseError as error:
            problems[function] = str(error)
        except Exception as error:  # noqa: BLE001 - it is somebody else's code
            problems[function] = f"{function} raised {_told(error)}"
        return otherwise

    pods = sorted(node.pods, key=lambda pod: pod.uid)
    samples = places = throttled = evicted = None
    if callable(getattr(plugin, "samples", None)):
        samples = ask("samples", lambda: _samples(plugin.samples(node)), ())
    if plugin.sortable is True:
        places = ask("compare", lambda: order(pods, plugin.compare), {})
    if plugin.throttle_quantified is True:
        work = functools.partial(_amounts, pods, plugin.throttle_release, "throttle_release")
        throttled = ask("throttle_release", work, {})
    if plugin.evict_quantified is True:
        work = functools.partial(_amounts, pods, plugin.evict_release, "evict_release")
        evicted = ask("evict_release", work, {})
    return PluginAnswer(samples or (), places or {}, throttled or {}, evicted or {}, problems)


def order(pods: list[PluginPod], compare: Callable[[PluginPod, PluginPod], Any]) -> dict[str, int]:
    """The place of each pod, equal for pods that compare equal. Raises NonsenseError."""

    def sign(first: PluginPod, second: PluginPod) -> int:
        found = _number(compare(first, second), "compare")
        return (found > 0) - (found < 0)

    ranked = sorted(pods, key=functools.cmp_to_key(sign))
    for place, pod in enumerate(ranked):
        for other in ranked[place : place + 1 + _CHECKED]:
            there, back = sign(pod, other), sign(other, pod)
            if there > 0 or there != -back:
                names = f"{pod.namespace}/{pod.name} and {other.namespace}/{other.name}"
                raise NonsenseError(f"compare is no order: it contradicts itself about {names}")
    places: dict[str, int] = {}
    for place, pod in enumerate(ranked):
        tied = place and sign(ranked[place - 1], pod) == 0
        places[pod.uid] = places[ranked[place - 1].uid] if tied else place
    return places


def _amounts(
    pods: Iterable[PluginPod], release: Callable[[PluginPod], Any], function: str
) -> dict[str, float]:
    return {pod.uid: max(_number(release(pod), function), 0.0) for pod in pods}


def _samples(found: object) -> tuple[Sample, ...]:
    if not isinstance(found, Iterable) or isinstance(found, str | bytes):
        raise NonsenseError(f"samples returned {quoted(found)}, but must return Samples")
    listed: list[Sample] = []
    for each in found:
        if not isinstance(each, Sample):
            raise NonsenseError(f"samples returned {quoted(each)}, but must return Samples")
        if len(listed) == MOST_SAMPLES:
            raise NonsenseError(f"samples returned more than {MOST_SAMPLES} of them")
        labels = {str(key): str(text) for key, text in each.labels.items()}
        listed.append(Sample(_number(each.value, "samples"), labels))
    return tuple(listed)


def _number(value: object, function: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NonsenseError(f"{function} returned {quoted(value)}, but must return a finite number")
    return float(value)


def _told(error: BaseException) -> str:
    """One line: a traceback helps nobody who reads a condition."""
    text = " ".join(str(error).split())
    return shorten(
        f"{type(error).__name__}: {text}" if text else type(error).__name__, _LONGEST_SENTENCE
    )


def run(name: str, questions: BinaryIO, answers: BinaryIO) -> int:
    """Until there are no more questions. 1 where the plug-in cannot be loaded."""

    def say(line: msgspec.Struct) -> None:
        answers.write(msgspec.json.encode(line) + b"\n")
        answers.flush()

    try:
        plugin = load_plugin(name)
    except NonsenseError as error:
        say(LoadedPlugin(problem=str(error)))
        return 1
    say(describe(plugin))
    decoder = msgspec.json.Decoder(PluginNode)
    for line in questions:
        say(answer(plugin, decoder.decode(line)))
    return 0


def _end_with_agent() -> None:
    """A plug-in that hangs would survive an agent that was killed (prctl(2))."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    _end_with_agent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.nice(_NICE)
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(_OOM_SCORE))
    except OSError:
        pass  # then the kernel chooses as it likes
    return run(sys.argv[1], sys.stdin.buffer, answers)


if __name__ == "__main__":
    sys.exit(main())
