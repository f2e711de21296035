"""Flags, variables and the file together: who names the workloads, who overrules whom."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_settings import resolve
from slackwater.model.units import Micros
from slackwater.settings.rebalancer import (
    KafkaSettings,
    LagMode,
    LagSum,
    LogLevel,
    MoveSettings,
    RunSettings,
    WorkloadSettings,
)

Environment = dict[str, str]
DURATION = "a duration such as 500ms, 1s or 1m30s"
NEVER = "minimumImprovement is 70 %, but with topK 2 no improvement is above 66.7 %"
WEB = {"DEPLOYMENT_NAME": "web"}


def settings(
    *names: str, file: str = "", env: Environment | None = None, **flags: str | bool
) -> RunSettings:
    return resolve(names, file, flags, env or {}).settings


def refused(
    *names: str, file: str = "", env: Environment | None = None, **flags: str | bool
) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        resolve(names, file, flags, env or {})
    assert caught.value.exit_code == 2
    return caught.value.message.split("\nslackwater: ")


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(**spec: Any) -> str:
        path = tmp_path / "workloads.yaml"
        head = {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings"}
        path.write_text(yaml.safe_dump({**head, "spec": spec}))
        return str(path)

    return write


def test_the_original_s_contract_with_its_defaults() -> None:
    """Facts section 1.1, each default as it stands there."""
    found = settings(env=WEB)
    assert found.workloads == (
        WorkloadSettings(
            namespace="posthog",
            name="web",
            selector="app=consumer",
            hpa_prefix="keda-hpa-",
            hpa_metric="cpu",
            moves=MoveSettings(
                top_k=2,
                tolerance=1.5,
                minimum_improvement=10.0,
                minimum_pods=2,
                window=Micros(300_000_000),
            ),
            kafka=KafkaSettings(enabled=False, threshold=1000),
        ),
    )
    assert found.prometheus.endpoint == "http://localhost:9090"
    assert found.prometheus.timeout == 30_000_000
    assert not found.dry_run
    assert found.log_level is LogLevel.INFO


def test_every_variable_of_the_original() -> None:
    env = {
        "PROMETHEUS_ENDPOINT": "http://vm:8428", "PROMETHEUS_TIMEOUT": "45s",
        "KUBE_NAMESPACE": "production", "KUBE_LABEL_SELECTOR": "app=kafka-consumer,env=prod",
        "DEPLOYMENT_NAME": "ingestion", "METRICS_TIME_WINDOW": "2m", "REBALANCE_TOP_K_PODS": "3",
        "TOLERANCE_MULTIPLIER": "2.0", "MINIMUM_IMPROVEMENT_PERCENT": "15",
        "HPA_PREFIX": "custom-hpa-", "MINIMUM_PODS_REQUIRED": "4", "DRY_RUN": "true",
        "LOG_LEVEL": "debug", "HPA_METRIC_NAME": "cpu", "KAFKA_LAG_THRESHOLD": "5000",
        "KAFKA_LAG_ENABLED": "1", "KAFKA_LAG_MODE": "require_above", "KAFKA_LAG_QUERY": "lag",
        "KAFKA_CONSUMER_GROUP": "g", "KAFKA_TOPIC": "t", "KAFKA_LAG_AGGREGATION": "max",
        "KAFKA_BOOTSTRAP_SERVERS": "a:9092,b:9092",
    }  # fmt: skip
    found = settings(env=env)
    assert found.prometheus.endpoint == "http://vm:8428"
    assert found.prometheus.timeout == 45_000_000
    assert (found.dry_run, found.log_level) == (True, LogLevel.DEBUG)
    assert found.workloads == (
        WorkloadSettings(
            namespace="production",
            name="ingestion",
            selector="app=kafka-consumer,env=prod",
            hpa_prefix="custom-hpa-",
            moves=MoveSettings(3, 2.0, 15.0, 4, Micros(120_000_000)),
            kafka=KafkaSettings(
                True, 5000, LagMode.REQUIRE_ABOVE, LagSum.MAX, "g", "t", "lag",
                ("a:9092", "b:9092"),
            ),
        ),
    )  # fmt: skip


def test_set_but_empty_is_unset() -> None:
    names = ("KUBE_NAMESPACE", "HPA_PREFIX", "REBALANCE_TOP_K_PODS", "DRY_RUN", "LOG_LEVEL")
    assert settings(env={**WEB, **dict.fromkeys(names, "")}) == settings(env=WEB)


@pytest.mark.parametrize(
    ("said", "prefix"), [("none", ""), ("keda-hpa", "keda-hpa"), ("", "keda-hpa-")]
)
def test_the_prefix(said: str, prefix: str) -> None:
    assert settings(env={**WEB, "HPA_PREFIX": said}).workloads[0].hpa_prefix == prefix


def test_a_workload_of_the_command_line_has_our_defaults() -> None:
    found = settings("web", env=WEB | {"DEPLOYMENT_NAME": "other"})
    assert found.workloads == (WorkloadSettings("default", "web"),)
    assert settings("web", env={"KUBE_NAMESPACE": "prod"}).workloads[0].namespace == "prod"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("web", ""),
        ("deployment/web", "Deployment"),
        ("deploy/web", "Deployment"),
        ("Deployment/web", "Deployment"),
        ("sts/web", "StatefulSet"),
        ("statefulsets/web", "StatefulSet"),
        ("rs/web", "ReplicaSet"),
    ],
)
def test_kinds_as_kubectl_takes_them(text: str, kind: str) -> None:
    assert settings(text).workloads == (WorkloadSettings("default", "web", kind),)


def test_a_kind_s_flag() -> None:
    assert settings("web", kind="StatefulSet").workloads[0].kind == "StatefulSet"


@pytest.mark.parametrize("text", ["daemonset/web", "a/b/web", "/web", "Web", "", "web_1"])
def test_what_is_no_workload(text: str) -> None:
    (sentence,) = refused(text)
    assert sentence.startswith("WORKLOAD is ")
    assert "but must be" in sentence


def test_several_workloads() -> None:
    found = settings("web", "api", namespace="prod", top_k="3")
    assert [(each.name, each.namespace, each.moves.top_k) for each in found.workloads] == [
        ("web", "prod", 3),
        ("api", "prod", 3),
    ]


def test_nobody_named() -> None:
    expected = "no workload is named: say one, or --file, or set DEPLOYMENT_NAME"
    assert refused() == [expected]
    assert refused(env={"DEPLOYMENT_NAME": ""}) == [expected]


@pytest.mark.parametrize(
    ("flags", "env", "topk"),
    [
        ({"top_k": "5"}, {"REBALANCE_TOP_K_PODS": "4"}, 5),
        ({}, {"REBALANCE_TOP_K_PODS": "4"}, 4),
        ({}, {"REBALANCE_TOP_K_PODS": "4", "SLACKWATER_REBALANCE_TOP_K": "6"}, 6),
        ({}, {}, 3),
    ],
)
def test_flag_over_variable_over_file_over_default(
    file: Any, flags: dict[str, str], env: Environment, topk: int
) -> None:
    path = file(defaults={"topK": 9}, workloads=[{"name": "web", "topK": 3}])
    assert settings(file=path, env=env, **flags).workloads[0].moves.top_k == topk


def test_a_flag_does_not_point_all_workloads_at_one_namespace(file: Any) -> None:
    path = file(workloads=[{"name": "web", "namespace": "a"}, {"name": "api"}])
    found = settings(file=path, namespace="b")
    assert [each.namespace for each in found.workloads] == ["a", "b"]


def test_a_file_s_workloads_have_our_defaults_and_not_the_original_s(file: Any) -> None:
    found = settings(file=file(workloads=[{"name": "web"}]), env=WEB)
    assert found.workloads == (WorkloadSettings("default", "web"),)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [((), ["web", "api", "db"]), (("api",), ["api"]), (("sts/db", "web"), ["web", "db"])],
)
def test_names_pick_from_the_file(file: Any, names: tuple[str, ...], chosen: list[str]) -> None:
    listed = [{"name": "web"}, {"name": "api"}, {"name": "db", "kind": "StatefulSet"}]
    found = settings(*names, file=file(workloads=listed))
    assert [each.name for each in found.workloads] == chosen


def test_names_that_are_not_in_the_file(file: Any) -> None:
    path = file(workloads=[{"name": "web", "kind": "Deployment"}])
    assert refused("api", file=path) == [f"api is not among the workloads of {path}"]
    assert refused("sts/web", file=path) == [f"web is not among the workloads of {path}"]
    assert refused(file=path, env={"DEPLOYMENT_NAME": "x"}) == [
        f"x is not among the workloads of {path}"
    ]


def test_a_file_without_workloads(file: Any) -> None:
    path = file(defaults={"topK": 3})
    assert refused(file=path) == [f"{path} has no workloads: list them at spec.workloads"]


def test_all_bad_values_are_told_at_once(file: Any) -> None:
    path = file(defaults={"topK": 0}, workloads=[{"name": "web"}])
    env = {"DRY_RUN": "yes", "METRICS_TIME_WINDOW": "300", "TOLERANCE_MULTIPLIER": "NaN"}
    assert refused(file=path, env=env, batch_size="-1") == [
        f"{path}: spec.defaults.topK is 0, but must be a whole number, at least 1",
        "TOLERANCE_MULTIPLIER is 'NaN', but must be a number, at least 1",
        f"METRICS_TIME_WINDOW is '300', but must be {DURATION}, 1s to 24h",
        "DRY_RUN is 'yes', but must be true or false",
        "--batch-size is -1, but must be a whole number, at least 0",
    ]


def test_a_bad_variable_is_told_even_under_a_flag() -> None:
    assert refused("web", env={"REBALANCE_TOP_K_PODS": "x"}, top_k="3") == [
        "REBALANCE_TOP_K_PODS is 'x', but must be a whole number, at least 1"
    ]


@pytest.mark.parametrize("metric", ["memory", "gpu", "CPU"])
def test_a_metric_that_is_not_cpu(metric: str) -> None:
    """Its target, 80 % of the memory request, would be taken for 80 % of the CPU request."""
    wanted = "cpu, since CPU usage is compared with its target"
    told = f"HPA_METRIC_NAME is '{metric}', but must be {wanted}"
    assert refused("web", env={"HPA_METRIC_NAME": metric}) == [told]


def test_a_bad_deployment_name() -> None:
    assert refused(env={"DEPLOYMENT_NAME": "My App"}) == [
        "DEPLOYMENT_NAME is 'My App', but must be an object's name such as web"
    ]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"prometheus_username": "me"}, "prometheus.passwordFile is '', but must be set where"),
    ],
)
def test_what_makes_no_sense_together(flags: dict[str, Any], sentence: str) -> None:
    (said,) = refused("web", **flags)
    assert said.startswith(sentence)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, ", but must be a readable file"),
        (b"a: [", " is unreadable, but must be YAML or JSON (the parser says "),
        (b"", " is 0 documents, but must be one document"),
        (b"a: 1\n---\nb: 2\n", " is 2 documents, but must be one document"),
        (b"\xff\xfe", " is no UTF-8 at byte 0, but must be UTF-8"),
        (b"- a", " is a list, but must be a mapping"),
        (b"spec: {dryRun: true, dryRun: false}", ":1, a key, is 'dryRun', but must be there once"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "f.yaml"
    if content is not None:
        path.write_bytes(content)
    first = refused(file=str(path))[0]
    assert first.startswith(str(path))
    assert sentence in first


def test_flags_that_are_on_or_off() -> None:
    assert settings("web", dry_run=True).dry_run
    assert not settings("web", dry_run=False, env={"DRY_RUN": "true"}).dry_run
    assert settings("web", kafka_lag_enabled=True).workloads[0].kafka.enabled


def test_warnings() -> None:
    env = {**WEB, "STRATEGY": "x", "MINIMUM_IMPROVEMENT_PERCENT": "70"}
    assert resolve((), "", {}, env).warnings == (
        "STRATEGY is set, but means nothing any more",
        f"posthog/web will never be rotated: {NEVER}",
    )
    assert resolve((), "", {}, WEB).warnings == ()


def test_the_same_workload_twice() -> None:
    assert refused("web", "web") == [
        "the second workload is 'default/web', but must be another workload than the first"
    ]
