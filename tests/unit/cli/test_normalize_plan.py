"""`slackwater normalize plan` as a person and a script see it: a folder, a cluster, bad input."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.contract.koordinator.normalization import (
    BASIC_INFO_ANNOTATION,
    ENABLED_LABEL,
    RAW_ALLOCATABLE_ANNOTATION,
)
from tests.unit.cli.in_process import run_command
from tests.unit.cli.served import served

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "normalization"
FAST = "Fast CPU"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": "/nonexistent", "NO_COLOR": "1"}
    return run_command("normalize", "plan", *arguments, environ=environ)


def node(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"allocatable": {"cpu": "7910m", "memory": "16Gi"}},
    }


def topology(name: str, model: str = FAST) -> dict[str, Any]:
    info = json.dumps({"cpuModel": model})
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "annotations": {BASIC_INFO_ANNOTATION: info}},
    }


def config_map(text: object) -> dict[str, Any]:
    stated = text if isinstance(text, str) else json.dumps(text)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config"},
        "data": {"cpu-normalization-config": stated},
    }


def pod(name: str, *containers: dict[str, Any], on: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "prod", **metadata},
        "spec": {"nodeName": on, "containers": list(containers)},
    }


def container(cpu: str | None = None, name: str = "main", **limits: str) -> dict[str, Any]:
    stated = {**({} if cpu is None else {"cpu": cpu}), **limits}
    return {"name": name, "resources": {"limits": stated}}


ON = {"enable": True, "ratioModel": {FAST: {"baseRatio": 1.2}}}


def write(folder: Path, *objects: dict[str, Any]) -> str:
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    return str(folder)


def planned(folder: Path, *objects: dict[str, Any]) -> list[dict[str, Any]]:
    said = run(write(folder, *objects), "-o", "json")
    assert said.stderr == ""
    found: list[dict[str, Any]] = json.loads(said.stdout)
    return found


def test_the_example_is_what_the_documentation_shows() -> None:
    said = run(str(EXAMPLE))
    assert said.returncode == 0
    page = (ROOT / "docs" / "reference" / "normalize.md").read_text()
    for line in said.stdout.splitlines():
        assert f"    {line}".rstrip() in page


def test_the_json_has_every_field(tmp_path: Path) -> None:
    lone = pod("web", container("2"), container(None, "side"))
    [row] = planned(tmp_path, config_map(ON), node("n1"), topology("n1"), lone)
    assert row == {
        "node": "n1",
        "cpuModel": FAST,
        "hyperThread": False,
        "turbo": False,
        "enabled": True,
        "ratio": "1.20",
        "source": f"ratioModel[{FAST!r}].baseRatio of the cluster's strategy",
        "problem": "",
        "amplification": {"cpu": 1.2},
        "allocatable": {
            "raw": {"cpu": "7910m", "memory": "16777216Ki"},
            "amplified": {"cpu": "9492m", "memory": "16777216Ki"},
        },
        "pods": [
            {
                "pod": "prod/web",
                "container": "main",
                "from": 200000,
                "to": 166667,
                "because": "limit 2000m / 1.20",
            },
            {
                "pod": "prod/web",
                "container": "side",
                "from": -1,
                "to": -1,
                "because": "it has no CPU limit, and stays unlimited",
            },
        ],
    }


@pytest.mark.parametrize(
    ("made", "before", "after", "because"),
    [
        (pod("p", container("1")), 100000, 83334, "limit 1000m / 1.20"),
        (pod("p", container("5m")), 1000, 1000, "limit 5m / 1.20"),
        (pod("p", container("11m")), 1100, 1000, "limit 11m / 1.20"),
        (
            pod("p", container("2"), labels={"koordinator.sh/qosClass": "LSE"}),
            200000,
            200000,
            "not divided: koordinator.sh/qosClass is LSE",
        ),
        (
            pod("p", container("2"), labels={"koordinator.sh/qosClass": "LS"}),
            200000,
            166667,
            "limit 2000m / 1.20",
        ),
        (
            pod("p", container("2"), annotations={"qos.gocrane.io/cpu-manager": "exclusive"}),
            200000,
            200000,
            "not divided: its annotation asks for CPUs of its own, which core_pinning gives",
        ),
        (
            pod("p", container("1500m"), annotations={"qos.gocrane.io/cpu-manager": "share"}),
            150000,
            125000,
            "limit 1500m / 1.20",
        ),
        (
            pod("p", container(**{"kubernetes.io/batch-cpu": "500"})),
            50000,
            41667,
            "kubernetes.io/batch-cpu 500m / 1.20",
        ),
    ],
)
def test_quotas(
    tmp_path: Path, made: dict[str, Any], before: int, after: int, because: str
) -> None:
    [row] = planned(tmp_path, config_map(ON), node("n1"), topology("n1"), made)
    [quota] = row["pods"]
    assert (quota["from"], quota["to"], quota["because"]) == (before, after, because)


def test_a_pods_own_limit_is_that_of_containers_without_one(tmp_path: Path) -> None:
    made = pod("p", container("500m"), container(name="side"))
    made["spec"]["resources"] = {"limits": {"cpu": "2"}}
    [row] = planned(tmp_path, config_map(ON), node("n1"), topology("n1"), made)
    assert [(each["from"], each["to"], each["because"]) for each in row["pods"]] == [
        (50_000, 41_667, "limit 500m / 1.20"),
        (200_000, 166_667, "the pod's limit 2000m / 1.20"),
    ]


def test_init_containers_count_and_finished_pods_do_not(tmp_path: Path) -> None:
    first = pod("a", container("1"))
    first["spec"]["initContainers"] = [container("2", "init")]
    ended = {**pod("b", container("1")), "status": {"phase": "Succeeded"}}
    [row] = planned(tmp_path, config_map(ON), node("n1"), topology("n1"), first, ended)
    assert [each["container"] for each in row["pods"]] == ["init", "main"]


def test_a_node_that_is_off_or_unknown(tmp_path: Path) -> None:
    off = {**ON, "enable": False}
    labelled = node("n2", labels={ENABLED_LABEL: "true"})
    crane = {**topology("n2"), "apiVersion": "topology.crane.io/v1alpha1"}
    one, two = planned(tmp_path, config_map(off), node("n1"), labelled, crane)
    assert (one["enabled"], one["ratio"], one["problem"]) == (False, "1.00", "")
    assert (two["enabled"], two["ratio"], two["cpuModel"]) == (None, None, None)
    assert two["problem"] == "there is no NodeResourceTopology n2"
    said = run(str(tmp_path))
    assert said.returncode == 1
    assert "  there is no NodeResourceTopology n2" in said.stdout


def test_a_cut_that_would_strand_pods_is_shown(tmp_path: Path) -> None:
    annotations = {
        "node.koordinator.sh/cpu-normalization-ratio": "1.50",
        "node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.50}',
        "node.koordinator.sh/raw-allocatable": '{"cpu":"4"}',
    }
    full = pod("p", container("5"))
    [row] = planned(
        tmp_path, config_map(ON), node("n1", annotations=annotations), topology("n1"), full
    )
    assert (row["ratio"], row["allocatable"]["amplified"]) == ("1.50", {"cpu": "6"})
    assert "request 5000m, and at 1.20 it would have 4800m (4000m x 1.20)" in row["problem"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"defaultRatio": 0.82}', "defaultRatio is 0.82, but must be a number from 1.00 to 5.00"),
        ('{"defaultRatio": NaN}', "must be JSON"),
        ('{"defaultRatio": "1.2"}', "defaultRatio is '1.2', but must be a number"),
    ],
)
def test_a_bad_model_is_a_sentence_and_an_exit_code(
    tmp_path: Path, text: str, sentence: str
) -> None:
    said = run(write(tmp_path, config_map(text), node("n1")))
    assert said.returncode == 1
    assert sentence in " ".join(said.stdout.split())
    assert "cannot be read" in said.stdout


def test_an_entry_for_no_node_is_told_to_scripts_too(tmp_path: Path) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    entries = [{"name": "a", "enable": True, "nodeSelector": selector}]
    folder = write(tmp_path, config_map(json.dumps({"nodeConfigs": entries})), node("n1"))
    for output in ("json", "yaml"):
        said = run(folder, "-o", output)
        assert said.returncode == 1
        assert "operator is 'Near', but must be one of" in said.stderr
        assert said.stderr.count("\n") == 1
    table = run(folder)
    assert (table.returncode, table.stderr) == (1, "")
    assert "operator is 'Near'" in table.stdout


@pytest.mark.parametrize("twice", [config_map("{}"), node("n1"), topology("n1")])
def test_an_object_that_stands_there_twice_is_refused(
    tmp_path: Path, twice: dict[str, Any]
) -> None:
    said = run(write(tmp_path, node("n2"), twice, twice))
    name = twice["metadata"]["name"]
    assert said.returncode == 2
    assert f"{twice['kind']} is '{name}', but must be there once" in said.stderr
    assert said.stderr.count("\n") == 1


def test_a_raw_amount_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    odd = node("n1", annotations={RAW_ALLOCATABLE_ANNOTATION: "{"})
    said = run(write(tmp_path, config_map("{}"), odd), "-o", "json")
    [planned] = json.loads(said.stdout)
    assert said.returncode == 1
    assert f"metadata.annotations[{RAW_ALLOCATABLE_ANNOTATION}] is '{{'" in planned["problem"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("kind: [", "must be YAML or JSON"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "has no Node"),
        ("kind: Node\n", "metadata.name"),
        (
            "kind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: lots}}\n",
            "allocatable.cpu is 'lots'",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_wrong_usage(
    tmp_path: Path, content: str, sentence: str
) -> None:
    (tmp_path / "a.yaml").write_text(content)
    said = run(str(tmp_path))
    assert (said.returncode, said.stdout) == (2, "")
    assert sentence in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_odd_characters_send_no_control_codes(tmp_path: Path) -> None:
    objects = (config_map(ON), node("n1"), topology("n1", "odd \x1b[31m CPU"))
    said = run(write(tmp_path, *objects))
    assert "\x1b" not in said.stdout
    assert "odd \N{REPLACEMENT CHARACTER}[31m CPU" in said.stdout


def test_a_long_list_of_containers_is_cut(tmp_path: Path) -> None:
    many = [pod(f"p{number:02}", container("1")) for number in range(12)]
    folder = write(tmp_path, config_map(ON), node("n1"), topology("n1"), *many)
    said = run(folder)
    assert "and 4 containers more; -o wide shows them" in said.stdout
    wide = run(folder, "-o", "wide").stdout
    assert wide.count("limit 1000m / 1.20") == 12
    assert "  ratioModel['Fast CPU'].baseRatio of the cluster's strategy" in wide


def test_from_a_cluster(tmp_path: Path) -> None:
    lists = {
        "/api/v1/nodes": [node("n1")],
        "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies": [topology("n1")],
        "/api/v1/pods": [pod("web", container("2"), uid="u")],
    }

    def reply(path: str) -> tuple[int, bytes]:
        route = path.partition("?")[0]
        if route == "/api/v1/namespaces/here/configmaps/model":
            found = config_map(ON)
            found["metadata"] = {"name": "model", "namespace": "here"}
            return 200, json.dumps(found).encode()
        items = [
            {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}
            for each in lists[route]
        ]
        return 200, json.dumps({"metadata": {}, "items": items}).encode()

    with served(reply) as server:
        file = tmp_path / "config"
        cluster = {"name": "c", "cluster": {"server": f"http://{server.address}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        file.write_text(
            yaml.safe_dump(
                {
                    "clusters": [cluster],
                    "contexts": [context],
                    "current-context": "c",
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )
        names = ("--config-namespace", "here", "--slo-config-name", "model")
        said = run("--kubeconfig", str(file), *names, "-o", "json")
    assert said.returncode == 0, said.stderr
    [row] = json.loads(said.stdout)
    assert (row["ratio"], row["pods"][0]["to"]) == ("1.20", 166667)


def test_a_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    said = run()
    assert said.returncode == 1
    assert len(said.stderr.splitlines()) == 1
