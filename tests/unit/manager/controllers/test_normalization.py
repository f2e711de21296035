"""The worth of CPUs as annotations: one patch with exactly our keys, and what is told."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from slackwater.contract.koordinator.node_ratios import HELD_CONDITION
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    AMPLIFICATION_KEY,
    BASIC_INFO_ANNOTATION,
    ENABLED_LABEL,
    NORMALIZATION_KEY,
    RATIO_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.contract.koordinator.slo_config import SloConfigName
from slackwater.contract.koordinator.topology import ReportedInfo, read_reported_info
from slackwater.kube.events import EventType
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import (
    NODE_KIND,
    POD_KIND,
    TOPOLOGY_KIND,
    ClusterView,
    slo_config_kind,
)
from slackwater.manager.controllers import normalization
from slackwater.manager.controllers.controller import DesiredWrite, Reconciled, WriteVerb
from slackwater.manager.controllers.normalization import (
    CONFIG_IGNORED,
    CONFIG_INVALID,
    CUT_REFUSED,
    LONGEST_MESSAGE,
    MOST_TOLD,
    RATIO_HELD,
    reconcile,
)
from slackwater.manager.scheduled_pod import ScheduledPod
from slackwater.manager.slo_config_memory import (
    GONE_AFTER,
    SloConfigMemory,
    SloConfigObject,
    SloConfigState,
    follow,
    read_slo_config_object,
)
from slackwater.model.units import Micros
from slackwater.status.api_objects import ClusterNode, read_node
from tests.unit.manager.objects import view_of

NAME = SloConfigName()
NOW = "2026-01-02T03:04:05Z"
FAST, SLOW = "Fast CPU @ 3.00GHz", "Slow CPU @ 2.00GHz"
MODEL = {
    "enable": True,
    "ratioModel": {FAST: {"baseRatio": 1.5}, SLOW: {"baseRatio": 1.0}},
}
BOTH = {RATIO_ANNOTATION: "1.50", AMPLIFICATION_ANNOTATION: '{"cpu":1.50}'}


def config_map(stated: object = MODEL, **keys: object) -> SloConfigObject:
    found = {NORMALIZATION_KEY: stated, **keys}
    document = {
        "metadata": {"name": NAME.name, "namespace": NAME.namespace, "uid": "u"},
        "data": {k: v if isinstance(v, str) else json.dumps(v) for k, v in found.items()},
    }
    return read_slo_config_object(msgspec.json.encode(document))


def node(
    name: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    cpu: str = "16",
    held: Mapping[str, str] | None = None,
) -> ClusterNode:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-of-{name}", "labels": labels or {}}
    metadata["annotations"] = {"theirs": "x", **(annotations or {})}
    status: dict[str, Any] = {"allocatable": {"cpu": cpu, "memory": "64Gi"}}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    if held is not None:
        status["conditions"].append({"type": HELD_CONDITION, **held})
    return read_node(msgspec.json.encode({"metadata": metadata, "status": status}))


def topology(name: str, model: str) -> ReportedInfo:
    info = json.dumps({"cpuModel": model})
    metadata = {"name": name, "annotations": {BASIC_INFO_ANNOTATION: info}}
    return read_reported_info(msgspec.json.encode({"metadata": metadata}))


def seen(
    *nodes: ClusterNode,
    models: Mapping[str, str] | None = None,
    pods: tuple[ScheduledPod, ...] = (),
    state: SloConfigState | None = None,
) -> ClusterView:
    topologies = {name: topology(name, model) for name, model in (models or {}).items()}
    view = view_of(InformerView({each.name: each for each in nodes}, synced=True))
    views = {
        **view.views,
        TOPOLOGY_KIND: InformerView(topologies, synced=True),
        POD_KIND: InformerView(dict(enumerate(pods)), synced=True),  # type: ignore[arg-type]
    }
    in_force = follow(SloConfigState(), config_map(), NAME, Micros(0)) if state is None else state
    return ClusterView(views, slo_config=in_force)


def go(view: ClusterView) -> Reconciled:
    return reconcile(view, NAME, NOW)


def annotated(done: Reconciled) -> list[DesiredWrite]:
    return [each for each in done.writes if each.verb is WriteVerb.ANNOTATE]


def conditions(done: Reconciled) -> list[DesiredWrite]:
    return [each for each in done.writes if each.verb is WriteVerb.CONDITION]


def in_force(*objects: SloConfigObject | None, at: int = 0) -> SloConfigState:
    """One after another, all at one time."""
    state = SloConfigState()
    for each in objects:
        state = follow(state, each, NAME, Micros(at))
    return state


def test_two_models_are_two_ratios() -> None:
    done = go(seen(node("a"), node("b"), models={"a": FAST, "b": SLOW}))
    assert [(each.name, each.body) for each in done.writes] == [
        ("a", BOTH),
        ("b", {RATIO_ANNOTATION: "1.00"}),
    ]
    first = done.writes[0]
    assert (first.verb, first.uid, first.is_current) == (WriteVerb.ANNOTATE, "uid-of-a", False)
    assert str(first) == "annotations of Node a"
    assert first.because == (f"ratioModel[{FAST!r}].baseRatio of the cluster's strategy")
    assert done.notices == ()


def test_what_stands_there_is_current_and_only_what_differs_is_patched() -> None:
    done = go(
        seen(
            node("a", BOTH),
            node("b", {**BOTH, RATIO_ANNOTATION: "1.49"}),
            models={"a": FAST, "b": FAST},
        )
    )
    current, other = done.writes
    assert current.is_current
    assert (other.is_current, other.body) == (False, {RATIO_ANNOTATION: "1.50"})


def test_a_node_that_never_took_part_is_not_written() -> None:
    state = in_force(config_map({**MODEL, "enable": False}))
    assert go(seen(node("a"), models={"a": FAST}, state=state)).writes == ()
    labelled = node("b", labels={ENABLED_LABEL: "true"})
    [write] = go(seen(node("a"), labelled, models={"b": FAST}, state=state)).writes
    assert (write.name, write.body) == ("b", BOTH)


def test_switched_off_is_one_hundred_and_no_amplification() -> None:
    state = in_force(config_map({**MODEL, "enable": False}))
    [write] = go(seen(node("a", BOTH), models={"a": FAST}, state=state)).writes
    assert write.body == {RATIO_ANNOTATION: "1.00", AMPLIFICATION_ANNOTATION: None}
    assert write.outcome == f"{RATIO_ANNOTATION} 1.00, {AMPLIFICATION_ANNOTATION} removed"


def test_nothing_is_done_before_the_model_is_known() -> None:
    assert go(seen(node("a", BOTH), state=SloConfigState())) == Reconciled()


def test_a_missing_topology_is_told_on_the_node() -> None:
    done = go(seen(node("a")))
    assert annotated(done) == []
    [notice] = done.notices
    assert notice.text == "there is no NodeResourceTopology a"
    assert notice.event is not None
    about = notice.event.about
    assert (about.kind, about.name, about.uid) == ("Node", "a", "a")
    assert (notice.event.reason, notice.event.type) == (RATIO_HELD, EventType.WARNING)


def test_a_cut_that_would_strand_pods_is_refused() -> None:
    state = in_force(config_map({**MODEL, "enable": False}))
    amplified = node("a", {**BOTH, RAW_ALLOCATABLE_ANNOTATION: '{"cpu":"16"}'}, cpu="24")
    pods = (ScheduledPod("a", 12_000, 0), ScheduledPod("a", 5_000, 0), ScheduledPod("b", 1, 0))
    done = go(seen(amplified, pods=pods, state=state))
    assert annotated(done) == []
    [condition] = conditions(done)
    assert condition.body["reason"] == CUT_REFUSED
    [notice] = done.notices
    assert notice.event is not None
    assert notice.event.reason == CUT_REFUSED
    assert "request 17000m, and at 1.00 it would have 16000m" in notice.text
    assert go(seen(amplified, pods=pods[1:], state=state)).writes[0].body == {
        RATIO_ANNOTATION: "1.00",
        AMPLIFICATION_ANNOTATION: None,
    }


def test_a_bad_model_is_told_on_the_config_map_and_on_the_nodes_that_take_part() -> None:
    state = in_force(config_map(), config_map('{"defaultRatio": 0.82}'))
    view = seen(node("a", BOTH), node("b"), models={"a": FAST, "b": FAST}, state=state)
    done = go(view)
    # The last good one is in force for new nodes too.
    assert [each.body for each in annotated(done) if not each.is_current] == [BOTH]
    assert [each.name for each in conditions(done)] == ["a", "b"]
    [config, *on_nodes] = done.notices
    assert config.event is not None
    assert (config.event.reason, config.event.about.kind) == (
        CONFIG_INVALID[NORMALIZATION_KEY],
        "ConfigMap",
    )
    assert config.text == (
        "ConfigMap koordinator-system/slo-controller-config: "
        "data[cpu-normalization-config].defaultRatio is 0.82, but must be a number from 1.00 to "
        "5.00, 1.00 being the slowest CPU model; the last good configuration stays in force"
    )
    assert [each.about for each in on_nodes] == [
        "normalization of Node a",
        "normalization of Node b",
    ]
    assert all(each.text == config.text for each in on_nodes)


def test_entries_for_no_node_are_told() -> None:
    state = in_force(config_map({**MODEL, "nodeConfigs": [{"enable": False}]}))
    [notice] = go(seen(state=state)).notices
    assert notice.event is not None
    assert notice.event.reason == CONFIG_IGNORED
    assert "nodeConfigs[0] has no nodeSelector" in notice.text


def test_one_mistake_about_thousands_of_nodes_is_not_thousands_of_events() -> None:
    nodes = [node(f"n{number}") for number in range(MOST_TOLD + 7)]
    *told, last = go(seen(*nodes)).notices
    assert len(told) == MOST_TOLD
    assert (last.text, last.event) == ("7 more nodes have such a problem", None)


def held_condition(text: str) -> dict[str, str]:
    return {"status": "True", "reason": RATIO_HELD, "message": text}


def test_what_holds_a_ratio_back_stands_on_the_node_as_a_condition() -> None:
    text = "there is no NodeResourceTopology a"
    [write] = conditions(go(seen(node("a"))))
    assert (str(write), write.uid, write.is_current) == ("condition of Node a", "uid-of-a", False)
    times = {"lastHeartbeatTime": NOW, "lastTransitionTime": NOW}
    assert write.body == {"type": HELD_CONDITION, **held_condition(text), **times}
    # It stands there: nothing to write.
    [write] = conditions(go(seen(node("a", held=held_condition(text)))))
    assert write.is_current
    # Another reason is no other status: the time of the transition stays.
    [write] = conditions(go(seen(node("a", held=held_condition("was another")))))
    assert (write.is_current, write.body["message"]) == (False, text)
    assert "lastTransitionTime" not in write.body


def test_the_condition_goes_with_its_reason() -> None:
    standing = node("a", BOTH, held=held_condition("was another"))
    [write] = conditions(go(seen(standing, models={"a": FAST})))
    assert write.body == {"type": HELD_CONDITION, "$patch": "delete"}
    assert (write.is_current, write.outcome) == (False, f"{HELD_CONDITION} removed")
    assert conditions(go(seen(node("a", BOTH), models={"a": FAST}))) == []


@pytest.mark.parametrize("keys", [{}, {AMPLIFICATION_KEY: "["}])
def test_of_a_bad_model_after_none_only_nodes_that_took_part_have_a_condition(
    keys: dict[str, str],
) -> None:
    """Nobody knows whether the others should."""
    state = in_force(config_map("{", **keys))
    labelled = node("b", labels={ENABLED_LABEL: "true"})
    done = go(seen(node("a"), labelled, node("c", BOTH), state=state))
    assert [each.name for each in conditions(done)] == ["b", "c"]
    assert len([each for each in done.notices if "of Node" in each.about]) == 3


def test_a_condition_has_a_bounded_message() -> None:
    state = in_force(config_map({**MODEL, "ratioModel": {}}))
    [write] = conditions(go(seen(node("a"), models={"a": "x" * 5000}, state=state)))
    assert len(write.body["message"]) <= LONGEST_MESSAGE


def test_a_config_map_that_is_gone_holds_for_a_minute() -> None:
    here = in_force(config_map())
    gone = follow(here, None, NAME, Micros(5))
    assert gone.config == here.config
    [notice] = go(seen(node("a", BOTH), models={"a": FAST}, state=gone)).notices
    assert "ratios go to 1.00 once it has been away for 60 s" in notice.text
    assert follow(gone, config_map(), NAME, Micros(9)).gone_at is None
    still = follow(gone, None, NAME, Micros(4 + GONE_AFTER))
    assert still.config == here.config
    after = follow(still, None, NAME, Micros(5 + GONE_AFTER))
    assert after.config is not None
    assert after.config.absent
    [write] = go(seen(node("a", BOTH), models={"a": FAST}, state=after)).writes
    assert write.body == {RATIO_ANNOTATION: "1.00", AMPLIFICATION_ANNOTATION: None}


def test_without_a_config_map_nothing_is_concluded_at_once() -> None:
    first = in_force(None)
    assert first.config is None
    later = follow(first, None, NAME, GONE_AFTER)
    assert later.config is not None
    assert later.config.absent
    # A bad one afterwards says nothing about what was before.
    held = follow(later, config_map("{"), NAME, GONE_AFTER)
    [write] = annotated(go(seen(node("a", {RATIO_ANNOTATION: "1.50"}), state=held)))
    assert write.body == {AMPLIFICATION_ANNOTATION: '{"cpu":1.50}'}


def test_the_same_object_is_not_read_again() -> None:
    here = in_force(config_map())
    assert follow(here, config_map(), NAME, Micros(7)) is here


def test_the_memory_looks_at_one_config_map_alone() -> None:
    memory = SloConfigMemory(NAME)
    unsynced: InformerView[SloConfigObject] = InformerView({})
    assert memory.look(unsynced, Micros(0)) == SloConfigState()
    other = InformerView({"elsewhere/slo-controller-config": config_map()}, synced=True)
    assert memory.look(other, Micros(0)).config is None
    own = InformerView({"koordinator-system/slo-controller-config": config_map()}, synced=True)
    found = memory.look(own, Micros(1))
    assert found.config is not None
    assert found.config.problems == {}


def test_it_waits_for_everything_that_it_reads() -> None:
    made = normalization.controller(NAME)
    assert made.watches == (NODE_KIND, slo_config_kind(NAME), TOPOLOGY_KIND, POD_KIND)
    assert made.needs == ()
    assert made.reconcile(seen(node("a"), models={"a": FAST}), "now").writes[0].body == BOTH


@pytest.mark.parametrize("label", ["yes", "", "TrUe", "2"])
def test_a_label_that_is_neither_holds(label: str) -> None:
    odd = node("a", {RATIO_ANNOTATION: "1.30"}, {ENABLED_LABEL: label})
    done = go(seen(odd, models={"a": FAST}))
    assert [each.body for each in annotated(done)] == [{AMPLIFICATION_ANNOTATION: '{"cpu":1.30}'}]
    assert f"label {ENABLED_LABEL} is {label!r}, but must be true or false" in done.notices[0].text
