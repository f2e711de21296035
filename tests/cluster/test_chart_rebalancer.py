"""What the chart makes of the rebalancer's values: which programs, which rights, which reach."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.model.problem import Problem
from slackwater.settings.rebalancer_document import read_file
from tests.cluster.chart import AGENT, REBALANCER, documents, of_kind
from tests.unit.packaging.rights import USERS, Right, granted, without_user
from tools.manifests import ManifestsError, render


@pytest.fixture(scope="module")
def helm(programs: dict[str, Path]) -> str:
    return str(programs["helm"])


def rebalancer(helm: str, *values: str, hooks: bool = False) -> list[dict[str, Any]]:
    where = () if "namespaces" in " ".join(values) else ("rebalancer.namespaces={shop}",)
    said = ("rebalancer.enabled=true", *where, *values)
    return documents(render(helm, "there", *said, hooks=hooks))


def test_settings_reach_the_rebalancers_file(helm: str) -> None:
    values = ("rebalancer.settings.dryRun=true", "rebalancer.settings.workloads[0].name=web")
    found = rebalancer(helm, *values)
    text = of_kind(found, "ConfigMap", REBALANCER)["data"]["settings.yaml"]
    problems: list[Problem] = []
    filed = read_file(yaml.safe_load(text), "test", problems)
    assert not problems
    assert (filed.run, [each.name for each in filed.workloads]) == ({"dry_run": True}, ["web"])
    job = of_kind(found, "CronJob")["spec"]["jobTemplate"]["spec"]
    [container] = job["template"]["spec"]["containers"]
    assert container["args"] == ["rebalance", "run", "--file=/etc/slackwater/settings.yaml"]
    assert container["volumeMounts"][0]["mountPath"] == "/etc/slackwater"


def test_without_settings_the_environment_says_all(helm: str) -> None:
    found = rebalancer(
        helm,
        "rebalancer.extraEnv[0].name=DEPLOYMENT_NAME",
        "rebalancer.extraEnv[0].value=web",
        "rebalancer.extraArgs={--dry-run}",
    )
    assert not [
        each for each in found if each["kind"] == "ConfigMap" and each["metadata"]["name"] != AGENT
    ]
    job = of_kind(found, "CronJob")["spec"]["jobTemplate"]["spec"]
    [container] = job["template"]["spec"]["containers"]
    assert container["args"] == ["rebalance", "run", "--dry-run"]
    assert {"name": "DEPLOYMENT_NAME", "value": "web"} in container["env"]
    assert "volumeMounts" not in container


def test_a_round_is_never_repeated_nor_doubled(helm: str) -> None:
    cron = of_kind(rebalancer(helm), "CronJob")["spec"]
    assert cron["concurrencyPolicy"] == "Forbid"
    job = cron["jobTemplate"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (0, 1800)
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_a_resident_rebalancer_listens_where_it_is_scraped(helm: str) -> None:
    found = rebalancer(helm, "rebalancer.mode=deployment", "rebalancer.listen.port=7")
    assert not [each for each in found if each["kind"] == "CronJob"]
    pod = of_kind(found, "Deployment", REBALANCER)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == ["rebalance", "loop", "--listen=0.0.0.0:7"]
    assert container["livenessProbe"]["httpGet"]["port"] == 7
    assert of_kind(found, "Service", REBALANCER)["spec"]["ports"][0]["port"] == 7
    of_kind(found, "Role", f"{REBALANCER}-lease")


@pytest.mark.parametrize(
    ("removal", "resource", "verbs"),
    [
        ((), "pods/eviction", ["create"]),
        (("rebalancer.settings.removal=evict",), "pods/eviction", ["create"]),
        (("rebalancer.allowDelete=true",), "pods", ["delete"]),
        (
            ("rebalancer.settings.removal=delete", "rebalancer.allowDelete=true"),
            "pods",
            ["delete"],
        ),
    ],
)
def test_it_may_evict_or_delete_and_not_both(
    helm: str, removal: tuple[str, ...], resource: str, verbs: list[str]
) -> None:
    rules = of_kind(rebalancer(helm, *removal), "ClusterRole", REBALANCER)["rules"]
    held = [(rule["resources"], rule["verbs"]) for rule in rules]
    assert ([resource], verbs) in held
    given = {verb for names, given in held if "events" not in names for verb in given}
    assert given == {"get", "list", "patch", *verbs}


def places(found: list[dict[str, Any]]) -> set[str]:
    """Where the rebalancer's rights hold: namespaces, or "*" for all."""
    bound = [each for each in found if each.get("roleRef", {}).get("name") == REBALANCER]
    return {each["metadata"].get("namespace", "*") for each in bound}


@pytest.mark.parametrize(
    ("values", "where"),
    [
        (("rebalancer.namespaces={shop,bank}",), {"shop", "bank"}),
        (("rebalancer.clusterWide=true",), {"*"}),
        (("rebalancer.settings.defaults.namespace=shop",), {"shop"}),
        (("rebalancer.settings.workloads[0].name=web",), {"default"}),
        (
            (
                "rebalancer.settings.defaults.namespace=shop",
                "rebalancer.settings.workloads[0].name=web",
                "rebalancer.settings.workloads[1].name=ledger",
                "rebalancer.settings.workloads[1].namespace=bank",
            ),
            {"shop", "bank"},
        ),
        (
            ("rebalancer.namespaces={bank}", "rebalancer.settings.defaults.namespace=shop"),
            {"bank"},
        ),
    ],
)
def test_it_is_bound_where_it_works(helm: str, values: tuple[str, ...], where: set[str]) -> None:
    found = documents(render(helm, "there", "rebalancer.enabled=true", *values))
    assert places(found) == where


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((), "say where it may work, or rebalancer.clusterWide=true"),
        (("rebalancer.namespaces={kube-system}",), "rebalancer.namespaces has kube-system"),
        (("rebalancer.settings.defaults.namespace=kube-system",), "has kube-system"),
        (("rebalancer.namespaces={shop}", "rebalancer.clusterWide=true"), "choose one"),
        (
            ("rebalancer.namespaces={shop}", "rebalancer.settings.removal=delete"),
            "that needs rebalancer.allowDelete=true as well",
        ),
        (
            (
                "rebalancer.namespaces={shop}",
                "rebalancer.settings.removal=evict",
                "rebalancer.allowDelete=true",
            ),
            "with it pods may be deleted and not evicted",
        ),
    ],
)
def test_too_much_or_nothing_is_refused(helm: str, values: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ManifestsError) as refused:
        render(helm, "there", "rebalancer.enabled=true", *values)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("values", [(), ("rebalancer.allowDelete=true",)])
@pytest.mark.parametrize("mode", ["cronjob", "deployment"])
def test_every_right_has_a_user(helm: str, mode: str, values: tuple[str, ...]) -> None:
    everything = (f"rebalancer.mode={mode}", "agent.volcanoNamespace=volcano-system", *values)
    assert without_user(rebalancer(helm, *everything)) == set()


def test_every_row_is_about_a_right_that_is_granted(helm: str) -> None:
    """The hook before an uninstallation has rights too."""
    found: set[Right] = set()
    for may in ("false", "true"):
        values = ("agent.volcanoNamespace=volcano-system", f"rebalancer.allowDelete={may}")
        found |= granted(rebalancer(helm, "rebalancer.mode=deployment", *values, hooks=True))
    assert found == USERS.keys()


def test_it_reaches_names_and_what_it_reads(helm: str) -> None:
    kafka = ("rebalancer.egress[0].ports[0].port=9092", "rebalancer.egress[0].to=null")
    policy = of_kind(rebalancer(helm, *kafka), "NetworkPolicy", REBALANCER)["spec"]
    names, brokers = policy["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert brokers["ports"] == [{"port": 9092}]
    assert policy["policyTypes"] == ["Egress"]
