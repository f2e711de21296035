"""What one plug-in answers, and what is said where it raises or returns nonsense."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.contract.ensurance_plugin import (
    LoadedPlugin,
    PluginAnswer,
    PluginAttributes,
    read_plugin_attributes,
)
from slackwater.model.ensurance_plugin import PluginNode, PluginPod
from slackwater.model.metric import Sample
from slackwater.model.problem import InvalidError
from slackwater.observation.plugins.plugin_process import run
from tests.unit.observation.plugins.installed import GOOD, changed, install


def pod(number: int, priority: int = 0, cpu: int | None = None) -> PluginPod:
    return PluginPod(str(number), f"pod-{number}", "d", "BestEffort", priority, cpu_usage=cpu)


NODE = PluginNode(100, (pod(1, 7, 300), pod(2, 3), pod(3, 7, 100)))


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Each test's module has a name of its own, as Python keeps modules."""
    module = f"plugin_{abs(hash(request.node.nodeid))}"

    def ask(text: str, *nodes: PluginNode, name: str = "queue") -> list[Any]:
        install(tmp_path, text, module=module)
        monkeypatch.syspath_prepend(str(tmp_path))
        answers = io.BytesIO()
        lines = b"".join(msgspec.json.encode(node) + b"\n" for node in nodes)
        run(name, io.BytesIO(lines), answers)
        first, *others = answers.getvalue().splitlines()
        return [
            msgspec.json.decode(first, type=LoadedPlugin),
            *(msgspec.json.decode(line, type=PluginAnswer) for line in others),
        ]

    return ask


def test_what_a_good_plug_in_says(ask: Any) -> None:
    loaded, answer = ask(GOOD, NODE)
    assert read_plugin_attributes(loaded.attributes, "queue") == PluginAttributes(
        "example.com/queue", 6, True, False, False, True, True, measures=True
    )
    assert answer.samples == (Sample(3.0),)
    assert answer.places == {"2": 0, "1": 1, "3": 1}
    assert answer.evict_releases == {"1": 300, "2": 0, "3": 100}
    assert answer.throttle_releases == {}
    assert answer.problems == {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "'a b'"}, "name is 'a b', but must be a metric's name such as"),
        (
            {"name": "'cpu_total_usage'"},
            "name is 'cpu_total_usage', but must be one with a '/', as",
        ),
        ({"name": "7"}, "name is 7, but must be a metric's name such as"),
        ({"name": "None"}, "name is missing, but must be"),
        ({"action_priority": "11"}, "action_priority is 11, but must be a whole number, 0 to 10"),
        ({"action_priority": "'5'"}, "action_priority is '5', but must be a whole number, 0 to 10"),
        ({"sortable": "1"}, "sortable is 1, but must be true or false"),
        ({"evictable": "False"}, "evict_quantified is true, but must be false where evictable is"),
        (
            {"throttle_quantified": "object()"},
            "throttle_quantified is 'a object', but must be true",
        ),
    ],
)
def test_wrong_attributes_are_one_sentence(ask: Any, change: dict[str, str], told: str) -> None:
    (loaded,) = ask(changed(**change))
    if loaded.problem:
        assert told in loaded.problem
        return
    with pytest.raises(InvalidError) as caught:
        read_plugin_attributes(loaded.attributes, "queue")
    assert str(caught.value).startswith(f"the plug-in queue: {told}")
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_module", "it cannot be loaded: ModuleNotFoundError: No module named"),
        ("Plugin = 7", "it cannot be loaded: TypeError: 'int' object is not callable"),
        ("def Plugin():\n    raise ValueError('no\\nlicence')", "loaded: ValueError: no licence"),
        ("", "it cannot be loaded: AttributeError: module"),
        (
            changed(throttleable="True", throttle_quantified="True"),
            "throttle_release is missing, but must be a function where throttle_quantified is true",
        ),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(ask: Any, text: str, told: str) -> None:
    (loaded,) = ask(text)
    assert told in loaded.problem
    assert "\n" not in loaded.problem


def test_a_name_that_no_package_has(ask: Any) -> None:
    (loaded,) = ask(GOOD, name="other")
    assert loaded.problem == (
        "no installed package has the entry point other of slackwater.ensurance_metrics"
    )


@pytest.mark.parametrize(
    ("function", "line", "told"),
    [
        ("compare", "raise KeyError('label')", "compare raised KeyError: 'label'"),
        ("compare", "return None", "compare returned missing, but must return a finite number"),
        ("compare", "return float('nan')", "compare returned nan, but must return a finite number"),
        ("compare", "return first.uid < second.uid", "compare returned false, but must return a"),
        (
            "compare",
            "return 1",
            "compare is no order: it contradicts itself about d/pod-1 and d/pod-1",
        ),
        (
            "compare",
            "return (int(first.uid) - int(second.uid) + 4) % 3 - 1",
            "compare is no order: it contradicts itself about ",
        ),
        (
            "evict_release",
            "return 1j",
            "evict_release returned a complex, but must return a finite",
        ),
        ("evict_release", "return float('inf')", "evict_release returned inf, but must return a"),
        ("evict_release", "return 1 / 0", "evict_release raised ZeroDivisionError: division by"),
        ("samples", "return 5", "samples returned 5, but must return Samples"),
        ("samples", "return [5]", "samples returned 5, but must return Samples"),
        (
            "samples",
            "return [Sample(float('nan'))]",
            "samples returned nan, but must return a finite",
        ),
        (
            "samples",
            "return (Sample(1.0) for _ in range(10**9))",
            "samples returned more than 10000",
        ),
    ],
)
def test_what_raises_or_is_nonsense_is_told_and_the_rest_stands(
    ask: Any, function: str, line: str, told: str
) -> None:
    _, answer, again = ask(changed(**{function: line}), NODE, NODE)
    assert list(answer.problems) == [function]
    assert answer.problems[function].startswith(told)
    good = {
        "compare": bool(answer.places),
        "evict_release": bool(answer.evict_releases),
        "samples": bool(answer.samples),
    }
    assert good == {name: name != function for name in good}
    assert again == answer
