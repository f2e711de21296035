"""The chart as helm sees it, and as a real API server takes it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater import __version__
from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import IMAGE, REPOSITORY, manifests
from tests.cluster.chart import AGENT, MANAGER, documents, of_kind
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import ClusterError, wait_for
from tools.manifests import CHART, render, wanted

RELEASE = "slackwater"
NAMED = ("--set", f"image.repository={REPOSITORY}")
#: Other values than the defaults, each of which changes what is rendered.
VARIANTS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "everything on": (
        "rebalancer.enabled=true",
        "rebalancer.clusterWide=true",
        "serviceMonitor.enabled=true",
        "prometheusRule.enabled=true",
        "prometheusRule.runbookUrl=https://wiki.example.com/runbooks/",
        "dashboards.enabled=true",
        "agent.volcanoNamespace=volcano-system",
        "image.pullSecrets={registry}",
        "apiServer.host=192.0.2.1",
        "agent.settings.bestEffortShare.enabled=true",
        "agent.settings.agent.interceptStarts=true",
        "agent.extraArgs={--period=2s}",
        "agent.seLinuxOptions.type=spc_t",
        "criticalPodsQuota.enabled=true",
    ),
    "everything off": (
        "manager.enabled=false",
        "admissionPolicies.enabled=false",
        "networkPolicy.enabled=false",
        "agent.systemd=false",
        "agent.capabilities=null",
        "agent.tolerations=null",
    ),
    "a rebalancer": (
        "rebalancer.enabled=true",
        "rebalancer.clusterWide=true",
        "agent.volcanoNamespace=default",
    ),
    "a resident rebalancer": (
        "rebalancer.enabled=true",
        "rebalancer.mode=deployment",
        "rebalancer.namespaces={default}",
        "rebalancer.settings.removal=delete",
        "rebalancer.allowDelete=true",
        "rebalancer.settings.workloads[0].name=web",
        "rebalancer.extraVolumes[0].name=secrets",
        "rebalancer.extraVolumes[0].emptyDir.medium=Memory",
        "rebalancer.extraVolumeMounts[0].name=secrets",
        "rebalancer.extraVolumeMounts[0].mountPath=/secrets",
        "rebalancer.hostNetwork=true",
    ),
    "in the host's network": ("agent.hostNetwork=true", "manager.hostNetwork=true"),
    "IPv6": ("agent.listen.address=::", "manager.listen.address=::"),
    "narrow mounts": ("agent.paths.writable={cpu/kubepods,cpuset/kubepods}", "agent.systemd=false"),
    "a digest": (f"image.digest=sha256:{'0' * 64}",),
}


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    """Of its own: the chart's names are taken once in a cluster."""
    made = ControlPlane(make_folder(), programs)
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def helm(programs: dict[str, Path]) -> str:
    return str(programs["helm"])


# --- what needs no cluster


def test_lint(plane: ControlPlane) -> None:
    assert "0 chart(s) failed" in plane.helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_is_named_placed_and_labelled(helm: str, variant: str) -> None:
    found = documents(render(helm, "there", *VARIANTS[variant]))
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
            for each in found]  # fmt: skip
    assert len(keys) == len(set(keys))
    for each in found:
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "slackwater"
        assert each["metadata"].get("namespace", "there") in ("there", "default", "volcano-system")


def test_the_packaged_manifests_are_the_charts(helm: str) -> None:
    """Else: .venv/bin/python -m tools.manifests."""
    for path, text in wanted(helm).items():
        assert path.read_text() == text


@pytest.mark.parametrize(("mode", "held"), [("own", True), ("takeOver", False)])
def test_a_topology_may_be_taken_over_where_the_values_say_so(
    helm: str, mode: str, held: bool
) -> None:
    found = documents(render(helm, "there", f"agent.settings.agent.topologyReport={mode}"))
    policy = of_kind(found, "ValidatingAdmissionPolicy", "slackwater-agent-topology")
    said = [each.get("message", "") for each in policy["spec"]["validations"]]
    assert any("take over" in each for each in said) is held


def test_another_namespace_and_image_are_as_helm_would_render_them(helm: str) -> None:
    rendered = render(helm, "elsewhere", "image.repository=example.com/water", "image.tag=v9")
    beside = f"example.com/water-manager:{__version__}"
    printed = manifests("elsewhere", "example.com/water:v9", beside)
    assert printed.endswith(rendered)
    assert NAMESPACE not in printed
    assert IMAGE not in printed


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("agent.onExit=foo", "'/agent/onExit': value must be one of 'keep', 'release'"),
        ("agent.lissten.port=1", "'/agent': additional properties 'lissten' not allowed"),
        ("agent.listen.port=0", "'/agent/listen/port': minimum: got 0, want 1"),
        ("agent.listen.port=70000", "'/agent/listen/port': maximum: got 70,000, want 65,535"),
        ("agent.listen.address=here", "'/agent/listen/address': 'here' does not match"),
        ("agent.paths.state=var", "'/agent/paths/state': 'var' does not match pattern '^/'"),
        ("agent.paths.writable={../etc}", "'/agent/paths/writable/0': '../etc' does not match"),
        ("agent.capabilities={sys_admin}", "'/agent/capabilities/0': 'sys_admin' does not match"),
        (
            "agent.settings.bestEffortShare.threshold=101",
            "'/agent/settings/bestEffortShare/threshold': maximum: got 101, want 100",
        ),
        (
            "agent.settings.agent.period=1",
            "'/agent/settings/agent/period': got number, want string",
        ),
        ("agent.settings.burst.on=true", "'/agent/settings': additional properties 'burst'"),
        ("manager.replicas=0", "'/manager/replicas': minimum: got 0, want 1"),
        ("image.tag=a/b", "'/image/tag': 'a/b' does not match pattern"),
        ("image.pullPolicy=Sometimes", "'/image/pullPolicy': value must be one of 'Always'"),
        ("priorityClass.create=true", "additional properties 'priorityClass' not allowed"),
        ("networkPolicy.apiServerPorts=null", ""),
        ("prometheusRule.runbookUrl=wiki", "'/prometheusRule/runbookUrl': 'wiki' does not match"),
        ("dashboards.labels=grafana", "'/dashboards/labels': got string, want "),
        ("rebalancer.mode=job", "'/rebalancer/mode': value must be one of 'cronjob', 'deployment'"),
        ("rebalancer.replicas=0", "'/rebalancer/replicas': minimum: got 0, want 1"),
        ("rebalancer.deadlineSeconds=5", "'/rebalancer/deadlineSeconds': minimum: got 5, want 60"),
        ("rebalancer.settings.caps.run=-1", "'/rebalancer/settings/caps/run': minimum: got -1"),
        ("rebalancer.settings.caps.pods=1", "'/rebalancer/settings/caps': additional properties"),
        ("rebalancer.namespaces={Shop}", "'/rebalancer/namespaces/0': 'Shop' does not match"),
    ],
)
def test_a_bad_value_is_a_sentence(plane: ControlPlane, value: str, sentence: str) -> None:
    command = ("template", RELEASE, str(CHART), *NAMED, "--set", value)
    if not sentence:  # null is helm's word for "the default is gone"
        assert "kind: NetworkPolicy" in plane.helm(*command)
        return
    with pytest.raises(ClusterError) as refused:
        plane.helm(*command)
    assert sentence in str(refused.value)
    assert "goroutine" not in str(refused.value)


def test_an_old_cluster_is_refused_with_a_sentence(plane: ControlPlane) -> None:
    with pytest.raises(ClusterError, match=r"requires kubeVersion: >=1\.30\.0-0"):
        plane.helm("template", RELEASE, str(CHART), *NAMED, "--kube-version", "1.29.3")


@pytest.mark.parametrize("named", [(), ("--set", "manager.image.repository=example.com/manager")])
def test_without_an_image_of_ones_own_nothing_is_installed(
    plane: ControlPlane, named: tuple[str, ...]
) -> None:
    with pytest.raises(ClusterError) as refused:
        plane.helm("template", RELEASE, str(CHART), *named)
    assert "image.repository is missing: name the image that you built" in str(refused.value)


@pytest.mark.parametrize(
    ("values", "images"),
    [
        ((), {"example.com/water:v1", "example.com/water-manager:v1"}),
        (("manager.image.repository=a/m",), {"example.com/water:v1", "a/m:v1"}),
        (
            (f"manager.image.digest=sha256:{'0' * 64}",),
            {"example.com/water:v1", f"example.com/water-manager@sha256:{'0' * 64}"},
        ),
    ],
)
def test_the_managers_image_is_beside_the_other_one(
    helm: str, values: tuple[str, ...], images: set[str]
) -> None:
    said = ("image.repository=example.com/water", "image.tag=v1", "manager.image.tag=v1", *values)
    found = documents(render(helm, NAMESPACE, *said))
    owners = (of_kind(found, "DaemonSet"), of_kind(found, "Deployment"))
    pods = (each["spec"]["template"]["spec"] for each in owners)
    assert {pod["containers"][0]["image"] for pod in pods} == images


def test_only_the_named_cgroups_can_be_written(helm: str) -> None:
    def cgroups(*values: str) -> list[tuple[str, bool]]:
        [container] = of_kind(documents(render(helm, "there", *values)), "DaemonSet")["spec"][
            "template"
        ]["spec"]["containers"]
        return [
            (each["mountPath"].removeprefix("/host/sys/fs/cgroup"), each.get("readOnly", False))
            for each in container["volumeMounts"]
            if each["mountPath"].startswith("/host/sys/fs/cgroup")
        ]

    assert cgroups() == [("", False)]
    narrow = cgroups("agent.paths.writable={cpu/kubepods,cpuset/kubepods}")
    assert narrow == [("", True), ("/cpu/kubepods", False), ("/cpuset/kubepods", False)]


def test_dashboards_are_found_by_grafanas_sidecar(helm: str) -> None:
    found = documents(render(helm, "there", "dashboards.enabled=true"))
    maps = [each for each in found if "dashboard" in each["metadata"]["name"]]
    assert len(maps) == len(list((CHART / "dashboards").iterdir())) == 4
    for each in maps:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert "annotations" not in each["metadata"]
        [(name, text)] = each["data"].items()
        whole = (CHART / "dashboards" / name.removeprefix("slackwater-")).read_text()
        assert json.loads(text) == json.loads(whole)


@pytest.mark.parametrize(
    ("values", "names", "pages"),
    [
        ((), {"normalization", "recording", "alerts"}, set()),
        (("prometheusRule.alerts=false",), {"normalization", "recording"}, set()),
        (
            ("prometheusRule.runbookUrl=https://wiki.example.com/runbooks/",),
            {"normalization", "recording", "alerts"},
            {"https://wiki.example.com/runbooks/SlackwaterAgentDown.md"},
        ),
    ],
)
def test_rules_are_those_of_the_files(
    helm: str, values: tuple[str, ...], names: set[str], pages: set[str]
) -> None:
    found = documents(render(helm, "there", "prometheusRule.enabled=true", *values))
    rules = {each["metadata"]["name"].removeprefix("slackwater-"): each["spec"]["groups"]
             for each in found if each["kind"] == "PrometheusRule"}  # fmt: skip
    assert rules.keys() == names
    assert {group["interval"] for groups in rules.values() for group in groups} == {"30s"}
    alerts = [rule for group in rules.get("alerts", ()) for rule in group["rules"]]
    urls = {each["annotations"].get("runbook_url") for each in alerts} - {None}
    assert pages <= urls
    assert len(urls) == (len(alerts) if pages else 0)
    for name in names - {"normalization"}:
        whole = yaml.safe_load((CHART / "rules" / f"{name}.yaml").read_text())["groups"]
        for rule in (rule for group in rules[name] for rule in group["rules"]):
            rule.get("annotations", {}).pop("runbook_url", None)
        assert [each["rules"] for each in rules[name]] == [each["rules"] for each in whole]


PROBES = {
    (): ("0.0.0.0:10480", None),
    ("agent.listen.address=::",): ("[::]:10480", None),
    ("agent.hostNetwork=true",): ("127.0.0.1:10480", "127.0.0.1"),
    ("agent.hostNetwork=true", "agent.listen.address=0.0.0.0"): ("0.0.0.0:10480", None),
    ("agent.listen.address=192.0.2.7", "agent.listen.port=1"): ("192.0.2.7:1", "192.0.2.7"),
}


@pytest.mark.parametrize("values", PROBES, ids=str)
def test_the_kubelet_asks_where_the_agent_listens(helm: str, values: tuple[str, ...]) -> None:
    listens, asked = PROBES[values]
    daemons = of_kind(documents(render(helm, "there", *values)), "DaemonSet")
    [container] = daemons["spec"]["template"]["spec"]["containers"]
    assert f"--listen={listens}" in container["args"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        where = container[probe]["httpGet"]
        assert where.get("host") == asked
        assert where["port"] == int(listens.rpartition(":")[2])


@pytest.mark.parametrize(("switch", "mounted"), [("true", ["/host/var/run/nri"]), ("false", [])])
def test_the_runtimes_socket_is_mounted_where_it_is_used(
    helm: str, switch: str, mounted: list[str]
) -> None:
    """Whoever has it can change every container of the node."""
    rendered = render(helm, NAMESPACE, f"agent.settings.agent.interceptStarts={switch}")
    pod = of_kind(documents(rendered), "DaemonSet", AGENT)["spec"]["template"]["spec"]
    mounts = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]]
    assert [each for each in mounts if "nri" in each] == mounted
    paths = [each["hostPath"]["path"] for each in pod["volumes"] if each["name"] == "nri"]
    assert paths == ["/var/run/nri"] * len(mounted)


def test_settings_reach_the_agents_file(helm: str) -> None:
    values = ("agent.settings.bestEffortShare.enabled=true",)
    settings = of_kind(documents(render(helm, "there", *values)), "ConfigMap", AGENT)
    assert yaml.safe_load(settings["data"]["settings.yaml"]) == {
        "apiVersion": "slackwater.io/v1",
        "kind": "AgentSettings",
        "spec": {"bestEffortShare": {"enabled": True}},
    }


# --- what the API server says


SERVED = ("defaults", "everything off", "a rebalancer", "a resident rebalancer")


@pytest.mark.parametrize("variant", SERVED)
def test_the_api_server_takes_the_plain_manifests(
    plane: ControlPlane, helm: str, variant: str
) -> None:
    plane.kubectl("create", "namespace", "dry")
    try:
        text = render(helm, "dry", *VARIANTS[variant])
        plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", given=text)
    finally:
        plane.kubectl("delete", "namespace", "dry", "--wait=false")
        wait_for("it to go", lambda: "dry" not in plane.kubectl("get", "namespaces", "-o", "name"))


def test_print_apply_and_delete(plane: ControlPlane) -> None:
    """What `slackwater install --print | kubectl apply` does, and again, and its end."""
    text = manifests()
    first = plane.kubectl("apply", "--server-side", "-f", "-", given=text)
    assert f"daemonset.apps/{AGENT} serverside-applied" in first
    assert "customresourcedefinition" in first
    second = plane.kubectl("apply", "--server-side", "-f", "-", given=text)
    assert first == second
    plane.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", given=text)
    wait_for("all to go", lambda: not _left(plane) and not _has_namespace(plane), patience=300)


def test_install_upgrade_and_uninstall(plane: ControlPlane) -> None:
    where = ("--namespace", NAMESPACE)
    notes = plane.helm("install", RELEASE, str(CHART), *where, "--create-namespace", *NAMED)
    assert "It only watches until you switch something on." in notes
    assert f"kubectl -n {NAMESPACE} rollout status daemonset/{AGENT}" in notes
    before = plane.get("daemonset", AGENT, "-n", NAMESPACE)
    settings = "agent.settings.bestEffortShare.enabled=true"
    notes = plane.helm("upgrade", RELEASE, str(CHART), *where, "--reuse-values", "--set", settings)
    assert "It only watches" not in notes
    told = plane.get("configmap", AGENT, "-n", NAMESPACE)["data"]["settings.yaml"]
    assert yaml.safe_load(told)["spec"] == {"bestEffortShare": {"enabled": True}}
    after = plane.get("daemonset", AGENT, "-n", NAMESPACE)
    assert after["spec"] == before["spec"], "new settings need no restart"
    # No node runs the Jobs that release what is held.
    plane.helm("uninstall", RELEASE, *where, "--wait", "--no-hooks")
    assert _left(plane) == []
    kinds = plane.kubectl("get", "customresourcedefinitions", "-o", "name")
    assert "nodeqoss.ensurance.crane.io" in kinds, "helm removes no definitions"
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _has_namespace(plane: ControlPlane) -> bool:
    return NAMESPACE in plane.kubectl("get", "namespaces", "-o", "name")


def _left(plane: ControlPlane) -> list[str]:
    """Names of ours that are still there, beside namespaces and definitions."""
    kinds = (
        "daemonsets,deployments,services,serviceaccounts,configmaps,networkpolicies,roles,"
        "rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,resourcequotas,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "mutatingwebhookconfigurations,secrets"
    )
    label = "app.kubernetes.io/part-of=slackwater"
    return plane.kubectl("get", kinds, "-A", "-l", label, "-o", "name").split()


# --- Pod Security: which level each program's pods need


def pod_of(helm: str, kind: str, name: str) -> dict[str, Any]:
    """A pod as the controller would make it."""
    owner = of_kind(documents(render(helm, NAMESPACE)), kind, name)
    spec = {**owner["spec"]["template"]["spec"], "serviceAccountName": "default"}
    del spec["priorityClassName"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


LEVELS = {
    ("restricted", "DaemonSet", AGENT): "hostPath",
    ("baseline", "DaemonSet", AGENT): "hostPath",
    ("privileged", "DaemonSet", AGENT): "",
    ("restricted", "Deployment", MANAGER): "",
}


@pytest.mark.parametrize(("level", "kind", "name"), LEVELS)
def test_pod_security(plane: ControlPlane, helm: str, level: str, kind: str, name: str) -> None:
    place = f"level-{level}-{name}"
    label = {"pod-security.kubernetes.io/enforce": level}
    plane.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place, "labels": label}}
    )
    wait_for(
        "its account", lambda: "default" in plane.kubectl("get", "sa", "-n", place, "-o", "name")
    )
    said = ""
    try:
        given = json.dumps(pod_of(helm, kind, name))
        plane.kubectl("create", "-n", place, "--dry-run=server", "-f", "-", given=given)
    except ClusterError as error:
        said = str(error)
    wanted_words = LEVELS[(level, kind, name)]
    assert (f'violates PodSecurity "{level}:latest"' in said) == bool(wanted_words), said
    assert wanted_words in said


def test_the_plain_manifests_label_their_namespace_for_the_agent() -> None:
    made = of_kind(documents(manifests()), "Namespace")
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
