"""Each setting can be said four ways, and means the same: flag, variable, the original's, file."""

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec import inspect

from slackwater.cli.rebalance import rebalance
from slackwater.cli.rebalance_options import rotation_options, texts_of, variables_of
from slackwater.cli.rebalance_settings import resolve
from slackwater.contract.rebalancer_environment import VARIABLES
from slackwater.settings.rebalancer import (
    KafkaProtocol,
    LagMode,
    LagSum,
    LogLevel,
    Removal,
    RequestSource,
    RunSettings,
    SaslMechanism,
    UsageSource,
)
from slackwater.settings.rebalancer_document import BY_KEY, RUN_SETTINGS, SETTINGS
from slackwater.settings.setting import Setting

#: By key: as a text, as a file has it, and what comes of it. Never the default.
SAID: dict[str, tuple[str, Any, Any]] = {
    "namespace": ("prod", "prod", "prod"),
    "kind": ("StatefulSet", "StatefulSet", "StatefulSet"),
    "container": ("*", "*", "*"),
    "selector": ("app=x", "app=x", "app=x"),
    "hpaPrefix": ("none", "", ""),
    "hpaMetric": ("cpu", "cpu", "cpu"),
    "topK": ("7", 7, 7),
    "tolerance": ("1.25", 1.25, 1.25),
    "minimumImprovement": ("12.5", 12.5, 12.5),
    "minimumPods": ("5", 5, 5),
    "window": ("90s", "1m30s", 90_000_000),
    "minimumPodAge": ("0s", "0s", 0),
    "cooldown": ("1h", "60m", 3_600_000_000),
    "batchSize": ("3", 3, 3),
    "kafka.lagEnabled": ("true", True, True),
    "kafka.lagThreshold": ("0", 0, 0),
    "kafka.lagMode": ("require_above", "require_above", LagMode.REQUIRE_ABOVE),
    "kafka.lagAggregation": ("max", "max", LagSum.MAX),
    "kafka.consumerGroup": ("a group", "a group", "a group"),
    "kafka.topic": ("t.1", "t.1", "t.1"),
    "kafka.lagQuery": ('x{a="b"}', 'x{a="b"}', 'x{a="b"}'),
    "kafka.bootstrapServers": ("a:1, b:2", ["a:1", "b:2"], ("a:1", "b:2")),
    "kafka.protocol": ("SSL", "SSL", KafkaProtocol.SSL),
    "kafka.caFile": ("/ca", "/ca", "/ca"),
    "kafka.certificateFile": ("/c", "/c", "/c"),
    "kafka.keyFile": ("/k", "/k", "/k"),
    "kafka.saslMechanism": ("SCRAM-SHA-512", "SCRAM-SHA-512", SaslMechanism.SCRAM_SHA_512),
    "kafka.username": ("me", "me", "me"),
    "kafka.passwordFile": ("/p", "/p", "/p"),
    "prometheus.endpoint": ("https://vm/x", "https://vm/x", "https://vm/x"),
    "prometheus.timeout": ("250ms", "0.25s", 250_000),
    "prometheus.retries": ("0", 0, 0),
    "prometheus.headers": ("A=b,C=d", {"A": "b", "C": "d"}, (("A", "b"), ("C", "d"))),
    "prometheus.tenant": ("team-1", "team-1", "team-1"),
    "prometheus.tokenFile": ("/t", "/t", "/t"),
    "prometheus.username": ("me", "me", "me"),
    "prometheus.passwordFile": ("/p", "/p", "/p"),
    "prometheus.caFile": ("/ca", "/ca", "/ca"),
    "prometheus.certificateFile": ("/c", "/c", "/c"),
    "prometheus.keyFile": ("/k", "/k", "/k"),
    "prometheus.podLabel": ("exported_pod", "exported_pod", "exported_pod"),
    "prometheus.containerLabel": ("c", "c", "c"),
    "prometheus.namespaceLabel": ("n", "n", "n"),
    "prometheus.matchers": ("c=x,d=", {"c": "x", "d": ""}, (("c", "x"), ("d", ""))),
    "usageSource": ("metrics-api", "metrics-api", UsageSource.METRICS_API),
    "requestSource": ("spec", "spec", RequestSource.SPEC),
    "removal": ("delete", "delete", Removal.DELETE),
    "gracePeriodSeconds": ("45", 45, 45),
    "readyTimeout": ("10s", "10s", 10_000_000),
    "caps.run": ("4", 4, 4),
    "caps.node": ("1", 1, 1),
    "caps.namespace": ("2", 2, 2),
    "dryRun": ("true", True, True),
    "push": ("http://push:9091", "http://push:9091", "http://push:9091"),
    "interval": ("10s", "10s", 10_000_000),
    "logLevel": ("debug", "debug", LogLevel.DEBUG),
}
#: What a setting cannot be said without.
PARTNERS = {
    "kafka.certificateFile": "kafka.keyFile",
    "kafka.username": "kafka.passwordFile",
    "prometheus.certificateFile": "prometheus.keyFile",
    "prometheus.username": "prometheus.passwordFile",
}
PARTNERS |= {partner: key for key, partner in PARTNERS.items()}


def with_partner(entry: Setting) -> list[Setting]:
    partner = PARTNERS.get(entry.key)
    return [entry] if partner is None else [entry, BY_KEY[partner]]


def kept(settings: RunSettings, entry: Setting) -> Any:
    value: Any = settings if entry in RUN_SETTINGS else settings.workloads[0]
    *above, last = entry.path
    for attribute in above:
        value = getattr(value, attribute)
    [name] = [each.name for each in msgspec.structs.fields(value) if each.encode_name == last]
    return getattr(value, name)


def parsed(*arguments: str) -> dict[str, Any]:
    """Flags as click hands them over."""
    caught: dict[str, Any] = {}

    @click.command()
    @rotation_options
    def catch(file: str, kubeconfig: str, context: str, **said: Any) -> None:
        assert (file, kubeconfig, context) == ("", "", "")
        caught.update(said)

    catch.main(list(arguments), standalone_mode=False)
    return caught


def test_every_setting_is_tried() -> None:
    assert set(SAID) == set(BY_KEY)


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.key)
def test_as_a_flag(entry: Setting) -> None:
    said: list[str] = []
    for each in with_partner(entry):
        on = isinstance(each.annotation.type, inspect.BoolType)
        said += [each.flag] if on else [each.flag, SAID[each.key][0]]
    flags = parsed(*said)
    assert len(texts_of(flags)) == len(with_partner(entry))
    assert kept(resolve(("web",), "", flags, {}).settings, entry) == SAID[entry.key][2]


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.key)
def test_as_our_variable(entry: Setting) -> None:
    environment = {each.variable: SAID[each.key][0] for each in with_partner(entry)}
    assert kept(resolve(("web",), "", {}, environment).settings, entry) == SAID[entry.key][2]


@pytest.mark.parametrize("key", VARIABLES)
def test_as_the_original_s_variable(key: str) -> None:
    environment = {"DEPLOYMENT_NAME": "web", VARIABLES[key]: SAID[key][0]}
    assert kept(resolve((), "", {}, environment).settings, BY_KEY[key]) == SAID[key][2]


@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.key)
@pytest.mark.parametrize("place", ["defaults", "workload"])
def test_as_a_key_of_the_file(entry: Setting, place: str, tmp_path: Path) -> None:
    section: dict[str, Any] = {}
    for each in with_partner(entry):
        above, _, below = each.key.partition(".")
        if below:
            section.setdefault(above, {})[below] = SAID[each.key][1]
        else:
            section[above] = SAID[each.key][1]
    spec: dict[str, Any] = {"workloads": [{"name": "web"}]}
    if entry in RUN_SETTINGS:
        spec |= section
    elif place == "defaults":
        spec["defaults"] = section
    else:
        spec["workloads"][0] |= section
    file = tmp_path / "f.yaml"
    head = {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings"}
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    assert kept(resolve((), str(file), {}, {}).settings, entry) == SAID[entry.key][2]


@pytest.mark.parametrize("command", ["plan", "run", "loop"])
def test_help_names_every_setting(command: str) -> None:
    done = CliRunner().invoke(rebalance, [command, "--help"], terminal_width=2000)
    told = " ".join(done.stdout.split())
    for entry in SETTINGS:
        assert entry.flag in told
        for variable in variables_of(entry):
            assert variable in told
        assert f"Default: {entry.default}. Bound: {entry.bound}." in told


def test_off_is_said_as_well() -> None:
    environment = {"DRY_RUN": "true", "KAFKA_LAG_ENABLED": "true"}
    flags = parsed("--no-dry-run", "--no-kafka-lag-enabled")
    found = resolve(("web",), "", flags, environment).settings
    assert not found.dry_run
    assert not found.workloads[0].kafka.enabled


layers = st.none() | st.integers(1, 99)


@given(layers, layers, layers, layers, layers)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_the_first_that_says_something_wins(
    tmp_path: Path,
    flag: int | None,
    ours: int | None,
    original: int | None,
    entry: int | None,
    default: int | None,
) -> None:
    head = {"apiVersion": "slackwater.io/v1", "kind": "RebalancerSettings"}
    listed = {"name": "web"} if entry is None else {"name": "web", "topK": entry}
    file = tmp_path / "f.yaml"
    spec = {"defaults": {"topK": default}, "workloads": [listed]}
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    environment = {
        name: str(number)
        for name, number in (
            ("SLACKWATER_REBALANCE_TOP_K", ours),
            ("REBALANCE_TOP_K_PODS", original),
        )
        if number is not None
    }
    flags = {} if flag is None else {"top_k": str(flag)}
    found = resolve((), str(file), flags, environment).settings.workloads[0].moves.top_k
    order = (flag, ours, original, entry, default, 2)
    assert found == next(each for each in order if each is not None)
