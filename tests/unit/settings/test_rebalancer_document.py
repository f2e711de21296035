"""The rebalancer's file, flags and variables: what they state, and who overrules whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import Problem
from slackwater.settings.prometheus import MetricLabels, PrometheusSettings
from slackwater.settings.rebalancer import (
    KafkaAccess,
    KafkaProtocol,
    KafkaSettings,
    MoveSettings,
    Removal,
    RunSettings,
    WorkloadSettings,
)
from slackwater.settings.rebalancer_document import (
    SETTINGS,
    WORKLOAD_SETTINGS,
    FileSettings,
    StatedWorkload,
    conflicts,
    read_file,
    run_settings,
    unreachable_target,
    workload_settings,
)
from slackwater.settings.setting import StatedText, check_texts, nest

LAG_MODE = "one of block_above, require_above"
IN_PROMETHEUS = (
    "endpoint, timeout, retries, headers, tenant, tokenFile, username, passwordFile, caFile, "
    "certificateFile, keyFile, podLabel, containerLabel, namespaceLabel, matchers"
)


def document(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings", "spec": spec}


def read(value: object) -> FileSettings:
    problems: list[Problem] = []
    found = read_file(value, "f.yaml", problems)
    assert not problems
    return found


def refusals(value: object) -> list[str]:
    problems: list[Problem] = []
    read_file(value, "f.yaml", problems)
    return [each.sentence() for each in problems]


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
    run = run_settings(found.run, {})
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
    assert run_settings(found.run, {}) == RunSettings()
    assert found.workloads == ()
    assert workload_settings(StatedWorkload("a", {}), found.defaults, {}) == WorkloadSettings(
        "default", "a"
    )


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        (None, ["f.yaml is missing, but must be a mapping"]),
        ({}, ["f.yaml: apiVersion is missing, but must be slackwater.io/v1",
              "f.yaml: kind is missing, but must be RebalancerSettings"]),
        ({**document(), "kind": "AgentSettings"},
         ["f.yaml: kind is 'AgentSettings', but must be RebalancerSettings"]),
        ({**document(), "apiVersion": "v1"},
         ["f.yaml: apiVersion is 'v1', but must be slackwater.io/v1"]),
        (document(workloads={}),
         ["f.yaml: spec.workloads is a mapping, but must be a list"]),
        (document(workloads=["web"]),
         ["f.yaml: spec.workloads[0] is 'web', but must be a mapping"]),
        (document(workloads=[{"namespace": "x"}]),
         ["f.yaml: spec.workloads[0].name is missing, but must be an object's name such as web"]),
        (document(defaults={"topK": 0, "tolerance": 0.5}),
         ["f.yaml: spec.defaults.topK is 0, but must be a whole number, at least 1",
          "f.yaml: spec.defaults.tolerance is 0.5, but must be a number, at least 1"]),
        (document(defaults={"kafka": {"lagMode": "x"}}),
         [f"f.yaml: spec.defaults.kafka.lagMode is 'x', but must be {LAG_MODE}"]),
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
    problems: list[Problem] = []
    said = {
        "topK": StatedText("REBALANCE_TOP_K_PODS", "0"),
        "dryRun": StatedText("DRY_RUN", "yes"),
        "cooldown": StatedText("--cooldown", "1h"),
    }
    assert check_texts(SETTINGS, said, problems) == {"cooldown": 3_600_000_000}
    assert [each.sentence() for each in problems] == [
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
    stated = nest(WORKLOAD_SETTINGS, entry), nest(WORKLOAD_SETTINGS, defaults)
    found = workload_settings(StatedWorkload("web", stated[0]), stated[1], texts)
    assert (found.moves.top_k, found.namespace) == (topk, namespace)


def test_texts_of_the_run_do_not_reach_a_workload_nor_the_other_way() -> None:
    texts = {"topK": 7, "removal": "delete"}
    assert run_settings({}, texts).removal is Removal.DELETE
    assert workload_settings(StatedWorkload("web", {}), {}, texts).moves == MoveSettings(top_k=7)


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
    told = refusals(document(**value) if isinstance(value, dict) else value)
    assert all("but must be" in each and "\n" not in each for each in told)


# --- values that are fine alone and make no sense together


FILE = "f"
ONCE = "but must be labels that no query names by itself, each once"


def with_access(access: KafkaAccess) -> RunSettings:
    kafka = KafkaSettings(access=access)
    return RunSettings(
        tuple(WorkloadSettings("default", name, kafka=kafka) for name in ("web", "api"))
    )


def with_prometheus(**said: str) -> RunSettings:
    return RunSettings(prometheus=PrometheusSettings(**said))  # type: ignore[arg-type]


def with_matchers(*names: str) -> RunSettings:
    labels = MetricLabels(matchers=tuple((name, "x") for name in names))
    return RunSettings(prometheus=PrometheusSettings(labels=labels))


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        (RunSettings(), []),
        (with_prometheus(username="me", password_file=FILE), []),
        (with_prometheus(token_file=FILE), []),
        (with_prometheus(username="me"),
         ["prometheus.passwordFile is '', but must be set where prometheus.username is"]),
        (with_prometheus(password_file=FILE),
         ["prometheus.username is '', but must be set where prometheus.passwordFile is"]),
        (with_prometheus(certificate_file="f"),
         ["prometheus.keyFile is '', but must be set where prometheus.certificateFile is"]),
        (with_prometheus(username="me", password_file=FILE, token_file=FILE),
         ["prometheus.username is 'me', but must be empty where prometheus.tokenFile is set"]),
        (with_matchers("cluster", "region"), []),
        *[(with_matchers("cluster", name), [f"a label of prometheus.matchers is {name!r}, {ONCE}"])
          for name in ("cluster", "pod", "container", "namespace", "resource", "topic")],
        (RunSettings(prometheus=PrometheusSettings(labels=MetricLabels(
            namespace="ns", matchers=(("namespace", "x"),)))), []),
        (with_access(KafkaAccess(username="me")),
         ["kafka.passwordFile is '', but must be set where kafka.username is"]),
        (with_access(KafkaAccess(key_file="f")),
         ["kafka.certificateFile is '', but must be set where kafka.keyFile is"]),
        (with_access(KafkaAccess(protocol=KafkaProtocol.SASL_SSL)),
         ["kafka.username is '', but must be set where kafka.protocol is SASL_SSL"]),
        (RunSettings(tuple(WorkloadSettings("a", n) for n in ("w", "x", "y", "z", "x"))),
         ["the 5th workload is 'a/x', but must be another workload than the second"]),
        (RunSettings((WorkloadSettings("a", "w"), WorkloadSettings("b", "w"),
                      WorkloadSettings("a", "w", "StatefulSet"))), []),
    ],
)  # fmt: skip
def test_conflicts(settings: RunSettings, sentences: list[str]) -> None:
    assert [each.sentence() for each in conflicts(settings)] == sentences


@pytest.mark.parametrize(
    ("top_k", "minimum", "never"),
    [(2, 10.0, False), (2, 66.6, False), (2, 66.7, True), (1, 49.9, False), (1, 50.0, True),
     (9, 89.9, False), (9, 90.0, True), (1000, 100.0, True)],
)  # fmt: skip
def test_what_can_never_be_reached_is_told(top_k: int, minimum: float, never: bool) -> None:
    moves = MoveSettings(top_k=top_k, minimum_improvement=minimum)
    said = unreachable_target(WorkloadSettings("prod", "web", moves=moves))
    assert (said is not None) == never


def test_the_sentence_has_the_bound() -> None:
    moves = MoveSettings(minimum_improvement=70.0)
    assert unreachable_target(WorkloadSettings("prod", "web", moves=moves)) == (
        "prod/web will never be rotated: minimumImprovement is 70 %, but with topK 2 no "
        "improvement is above 66.7 %"
    )
