"""The file, the texts, and who overrules whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.settings.rebalancer import MoveSettings, Removal, RunSettings, WorkloadSettings
from slackwater.settings.rotation_document import (
    Filed,
    Listed,
    Problems,
    RotationError,
    Said,
    Worded,
    read_file,
    read_texts,
    run_settings,
    workload_settings,
)

IN_PROMETHEUS = (
    "endpoint, timeout, retries, headers, tenant, tokenFile, username, passwordFile, caFile, "
    "certificateFile, keyFile, podLabel, containerLabel, namespaceLabel, matchers"
)


def document(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings", "spec": spec}


def read(value: object) -> Filed:
    problems = Problems()
    found = read_file(value, "f.yaml", problems)
    problems.settle()
    return found


def refusals(value: object) -> list[str]:
    with pytest.raises(RotationError) as caught:
        read(value)
    return str(caught.value).split("\n")


def test_a_whole_file() -> None:
    found = read(
        document(
            prometheus={"endpoint": "http://vm:8428", "timeout": "5s", "headers": {"X-A": "b"}},
            removal="delete",
            caps={"run": 4},
            defaults={"tolerance": 2, "kafka": {"lagEnabled": True}},
            workloads=[{"name": "web"}, {"name": "api", "namespace": "prod", "topK": 3}],
        )
    )
    run = run_settings(found.run)
    assert run.prometheus.endpoint == "http://vm:8428"
    assert run.prometheus.timeout == 5_000_000
    assert run.prometheus.headers == (("X-A", "b"),)
    assert (run.removal, run.caps.run, run.caps.node) == (Removal.DELETE, 4, 0)
    web, api = (workload_settings(each, found.defaults, {}) for each in found.workloads)
    assert (web.namespace, web.name, web.moves.top_k, web.moves.tolerance) == (
        "default", "web", 2, 2.0,
    )  # fmt: skip
    assert (api.namespace, api.moves.top_k, api.moves.tolerance) == ("prod", 3, 2.0)
    assert web.kafka.enabled
    assert api.kafka.enabled
    assert api.kafka.threshold == 1000


@pytest.mark.parametrize("spec", [{}, {"defaults": {}}, {"workloads": []}, {"removal": None}])
def test_what_says_nothing_changes_nothing(spec: dict[str, Any]) -> None:
    found = read(document(**spec))
    assert run_settings(found.run) == RunSettings()
    assert found.workloads == ()
    assert workload_settings(Listed("a", {}), found.defaults, {}) == WorkloadSettings(
        "default", "a"
    )


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        (None, ["f.yaml is missing, but must be a mapping",
                "f.yaml: apiVersion is missing, but must be slackwater.io/v1",
                "f.yaml: kind is missing, but must be RebalancerSettings"]),
        ({**document(), "kind": "AgentSettings"},
         ["f.yaml: kind is 'AgentSettings', but must be RebalancerSettings"]),
        ({**document(), "apiVersion": "v1"},
         ["f.yaml: apiVersion is 'v1', but must be slackwater.io/v1"]),
        (document(workloads={}),
         ["f.yaml: spec.workloads is a mapping, but must be a list of workloads"]),
        (document(workloads=["web"]),
         ["f.yaml: spec.workloads[0] is 'web', but must be a mapping",
          "f.yaml: spec.workloads[0].name is missing, but must be an object's name such as web"]),
        (document(workloads=[{"namespace": "x"}]),
         ["f.yaml: spec.workloads[0].name is missing, but must be an object's name such as web"]),
        (document(defaults={"topK": 0, "tolerance": 0.5}),
         ["f.yaml: spec.defaults.topK is 0, but must be a whole number, at least 1",
          "f.yaml: spec.defaults.tolerance is 0.5, but must be a number, at least 1"]),
        (document(defaults={"kafka": {"lagMode": "x"}}),
         ["f.yaml: spec.defaults.kafka.lagMode is 'x', but must be block_above or require_above"]),
        (document(caps=3), ["f.yaml: spec.caps is 3, but must be a mapping"]),
        (document(caps={"pods": 3}),
         ["a key of f.yaml: spec.caps is 'pods', but must be one of run, node, namespace"]),
        (document(prometheus={"password": "secret"}),
         ["a key of f.yaml: spec.prometheus is 'password', but must be one of " + IN_PROMETHEUS]),
        ({**document(), "status": {}},
         ["a key of f.yaml is 'status', but must be one of apiVersion, kind, metadata, spec"]),
    ],
)  # fmt: skip
def test_refused_files_tell_all_at_once(value: object, sentences: list[str]) -> None:
    assert refusals(value) == sentences


def test_a_misspelt_setting_names_the_right_ones() -> None:
    (sentence,) = refusals(document(workloads=[{"name": "a", "tolerence": 2}]))
    assert sentence.startswith("a key of f.yaml: spec.workloads[0] is 'tolerence', but must be one")
    assert ", tolerance, " in sentence


def test_texts_are_checked_all_at_once() -> None:
    problems = Problems()
    said = read_texts(
        {
            "topK": Worded("REBALANCE_TOP_K_PODS", "0"),
            "dryRun": Worded("DRY_RUN", "yes"),
            "cooldown": Worded("--cooldown", "1h"),
        },
        problems,
    )
    assert said == {"cooldown": 3_600_000_000}
    with pytest.raises(RotationError) as caught:
        problems.settle()
    assert str(caught.value).split("\n") == [
        "REBALANCE_TOP_K_PODS is 0, but must be a whole number, at least 1",
        "DRY_RUN is 'yes', but must be true or false",
    ]


@pytest.mark.parametrize(
    ("entry", "defaults", "texts", "topk", "namespace"),
    [
        ({}, {}, {}, 2, "default"),
        ({}, {"topK": 3, "namespace": "d"}, {}, 3, "d"),
        ({"topK": 4, "namespace": "e"}, {"topK": 3, "namespace": "d"}, {}, 4, "e"),
        ({"topK": 4}, {"namespace": "d"}, {"topK": 5, "namespace": "t"}, 5, "t"),
        ({"topK": 4, "namespace": "e"}, {}, {"topK": 5, "namespace": "t"}, 5, "e"),
    ],
)
def test_who_overrules_whom(
    entry: dict[str, Any],
    defaults: dict[str, Any],
    texts: dict[str, Any],
    topk: int,
    namespace: str,
) -> None:
    found = workload_settings(Listed("web", entry), defaults, texts)
    assert (found.moves.top_k, found.namespace) == (topk, namespace)


def test_texts_of_the_run_do_not_reach_a_workload_nor_the_other_way() -> None:
    texts: Said = {"topK": 7, "removal": Removal.DELETE}
    assert run_settings(texts).removal is Removal.DELETE
    assert workload_settings(Listed("web", {}), {}, texts).moves == MoveSettings(top_k=7)


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "defaults",
                    "workloads",
                    "kafka",
                    "topK",
                    "name",
                    "caps",
                    "run",
                    "prometheus",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(nested)
def test_any_document_is_read_or_refused_line_by_line(value: object) -> None:
    try:
        read(document(**value) if isinstance(value, dict) else value)
    except RotationError as error:
        told = str(error).split("\n")
        assert len(told) == len(error.problems)
        assert all("but must be" in each for each in told)
