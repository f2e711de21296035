"""A folder of YAML as the cluster: last good, named faults, only changed files read."""

import json
import os
from pathlib import Path

import pytest

from slackwater.contract.volcano.node import for_node
from slackwater.model.gap import Gap
from slackwater.observation.objects.folder import Folder, OpenWatch
from slackwater.observation.objects.folder_watch import FolderWatch, watch_folder
from slackwater.observation.objects.object_set import Objects

UID = "d2988e14-83bc-4d3d-931a-59f8a3174396"
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: shop, uid: {UID}}}
spec:
  containers:
  - name: main
    resources: {{requests: {{cpu: 250m}}, limits: {{cpu: "1"}}}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: one, labels: {volcano.sh/oversubscription: "true"}}
status: {allocatable: {cpu: "2"}}
"""
THROTTLING = """
cpuThrottlingConfig:
  enable: true
  cpuThrottlingThreshold: 70
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-agent-configuration, namespace: volcano-system}
data:
  colocation-config: |
    {"globalConfig": {"cpuThrottlingConfig": {"enable": true, "cpuThrottlingThreshold": 60}}}
"""
SETTINGS = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {agent: {period: 500ms}}
"""


def read(folder: Folder) -> Objects:
    found = folder.read()
    assert isinstance(found, Objects), found
    return found


def test_a_misspelt_field_is_told_and_the_object_counts(tmp_path: Path) -> None:
    action = "kind: AvoidanceAction\nmetadata: {name: evict}\nspec: {coolDown: 3}\n"
    (tmp_path / "a.yaml").write_text(action)
    folder = Folder(str(tmp_path))
    found = read(folder)
    assert (len(found.ensurance.actions), found.problems) == (1, ())
    assert found.warnings == (
        "a.yaml: AvoidanceAction evict: spec.coolDown is not known and has no effect",
    )
    rewrite(tmp_path / "a.yaml", action.replace("coolDown", "coolDownSeconds"))
    assert read(folder).warnings == ()


def threshold(objects: Objects) -> int | None:
    assert objects.colocation is not None
    return for_node(objects.colocation, {}).cpu_throttling.threshold


def sentences_of(found: Objects) -> list[str]:
    return [each.sentence() for each in found.problems]


def rewrite(file: Path, text: str) -> None:
    """With another time stamp, however coarse the file system's clock is."""
    file.write_text(text)
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))


def test_objects_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("---".join([POD, NODE, SETTINGS, "\n"]))
    (tmp_path / "config.yml").write_text(THROTTLING)
    found = read(Folder(str(tmp_path)))
    assert [pod.name for pod in found.pods] == ["web"]
    assert [node.allocatable_cpu for node in found.nodes] == [2000]
    assert found.settings is not None
    assert found.settings.agent.period == 500_000
    assert threshold(found) == 70
    assert found.problems == ()


def test_the_config_map_as_in_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "cm.yaml").write_text(CONFIG_MAP)
    assert threshold(read(Folder(str(tmp_path)))) == 60


def test_json_and_lists_and_unknown_kinds(tmp_path: Path) -> None:
    document = {
        "kind": "List",
        "items": [
            {"kind": "Pod", "metadata": {"name": "a", "uid": "a"}, "spec": {"containers": []}},
            {"kind": "Secret", "metadata": {"name": "x"}},
        ],
    }
    (tmp_path / "list.json").write_text(json.dumps(document))
    (tmp_path / "notes.txt").write_text("not ours")
    (tmp_path / ".hidden.yaml").write_text("{")
    found = read(Folder(str(tmp_path)))
    assert [pod.name for pod in found.pods] == ["a"]
    assert found.problems == ()


def test_nothing_changed_is_the_same_object(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    folder = Folder(str(tmp_path))
    assert folder.read() is folder.read()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: x", "pod.yaml:"),
        ("kind: Pod\nmetadata: {name: x, uid: ../../etc}\nspec: {containers: []}", "uid"),
        (POD.replace("250m", "many"), "'many'"),
        ("\tkind: Pod", "pod.yaml"),
        (f"{POD}\nkind: Pod\n", ", a key, is 'kind', but must be there once in its mapping"),
    ],
)
def test_a_bad_file_is_named_and_the_last_good_stays(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    folder = Folder(str(tmp_path))
    read(folder)
    rewrite(file, text)
    found = read(folder)
    assert [pod.name for pod in found.pods] == ["web"]
    [problem] = sentences_of(found)
    assert said in problem
    assert problem.endswith("; its last valid content stays in force")
    rewrite(file, POD.replace("web", "shop"))
    mended = read(folder)
    assert ([pod.name for pod in mended.pods], mended.problems) == (["shop"], ())


@pytest.mark.parametrize(
    ("threshold_text", "bound"),
    [("0", "1"), ("101", "100"), ("eighty", "a whole number"), ("true", "a whole number")],
)
def test_a_bad_bound_says_field_value_and_bound(
    tmp_path: Path, threshold_text: str, bound: str
) -> None:
    text = THROTTLING.replace("70", threshold_text)
    (tmp_path / "c.yaml").write_text(text)
    found = read(Folder(str(tmp_path)))
    if found.colocation is None:
        [problem] = sentences_of(found)
    else:
        with pytest.raises(ValueError, match="cpuThrottlingThreshold") as caught:
            for_node(found.colocation, {})
        problem = str(caught.value)
    assert "cpuThrottlingThreshold" in problem
    assert bound in problem


def test_a_file_that_goes_takes_its_objects_along(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    folder = Folder(str(tmp_path))
    read(folder)
    (tmp_path / "pod.yaml").unlink()
    assert read(folder).pods == ()


def test_no_folder_is_a_gap_and_holds_nothing_back(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "none"))
    assert isinstance(folder.read(), Gap)
    (tmp_path / "none").mkdir()
    assert read(folder) == Objects()


@pytest.mark.parametrize("garbage", [b"\xff\xfe", b"\0" * 50, b"a" * 2_000_000, b"[" * 5000])
def test_garbage_is_a_problem_never_an_exception(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "x.yaml").write_bytes(garbage)
    found = read(Folder(str(tmp_path)))
    assert len(found.problems) <= 1
    assert found.pods == ()


@pytest.mark.parametrize("text", ['x: !!int ""', "x: !!timestamp foo", "x: !!bool foo", "? [a]: b"])
def test_yaml_whose_constructors_fail(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    [problem] = sentences_of(read(Folder(str(tmp_path))))
    assert "x.yaml" in problem


def test_a_config_map_with_two_documents_inside(tmp_path: Path) -> None:
    lines = "    a: 1\n    ---\n    b: 2\n"
    (tmp_path / "cm.yaml").write_text(CONFIG_MAP.split("    {", maxsplit=1)[0] + lines)
    [problem] = sentences_of(read(Folder(str(tmp_path))))
    assert "2 documents, but must be one document" in problem


def test_a_config_map_with_a_key_twice_keeps_what_it_said_before(tmp_path: Path) -> None:
    file = tmp_path / "cm.yaml"
    file.write_text(CONFIG_MAP)
    folder = Folder(str(tmp_path))
    before = read(folder).colocation
    rewrite(file, CONFIG_MAP.split("    {", maxsplit=1)[0] + "    a: 1\n    a: 2\n")
    found = read(folder)
    assert before is not None
    assert found.colocation == before
    [problem] = sentences_of(found)
    assert ":2, a key, is 'a', but must be there once in its mapping" in problem
    assert problem.endswith("; its last valid content stays in force")


def test_a_dangling_link_is_one_bad_file(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "a.yaml").symlink_to("/nonexistent/file")
    found = read(Folder(str(tmp_path)))
    assert [pod.name for pod in found.pods] == ["web"]
    [problem] = sentences_of(found)
    assert problem.startswith("a.yaml is not readable")


def no_watch(_path: str) -> FolderWatch | Gap:
    return Gap("no inotify here")


def threshold_of(folder: Folder) -> int:
    found = read(folder)
    assert found.settings is not None
    threshold: int = found.settings.policies["best_effort_share"].threshold
    return threshold


WATCHES = pytest.mark.parametrize("open_watch", [watch_folder, no_watch])


@WATCHES
def test_every_change_is_seen_at_the_next_read(tmp_path: Path, open_watch: OpenWatch) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "settings.yaml").write_text(THRESHOLD.format(50))
    folder = Folder(str(tmp_path), open_watch=open_watch)
    assert threshold_of(folder) == 50
    assert folder.read() is folder.read()
    (tmp_path / "settings.yaml").write_text(THRESHOLD.format(105))  # in place: out of bounds
    assert len(read(folder).problems) == 1
    (tmp_path / "settings.yaml").write_text(THRESHOLD.format(7))
    assert threshold_of(folder) == 7
    (tmp_path / "new").write_text(THRESHOLD.format(99))
    (tmp_path / "new").rename(tmp_path / "settings.yaml")  # as editors do it
    assert threshold_of(folder) == 99
    (tmp_path / "node.yaml").write_text(NODE)
    assert len(read(folder).nodes) == 1
    (tmp_path / "pod.yaml").unlink()
    assert read(folder).pods == ()


@WATCHES
def test_what_a_link_points_to_is_seen(tmp_path: Path, open_watch: OpenWatch) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "elsewhere.yaml").write_text(THRESHOLD.format(50))
    (tmp_path / "node/settings.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    folder = Folder(str(tmp_path / "node"), open_watch=open_watch)
    assert threshold_of(folder) == 50
    (tmp_path / "elsewhere.yaml").write_text(THRESHOLD.format(7))
    assert threshold_of(folder) == 7


@WATCHES
def test_a_mounted_config_map_is_replaced_by_a_link(tmp_path: Path, open_watch: OpenWatch) -> None:
    """As the kubelet does it: ..data points to another folder from one moment to the next."""
    for number in (50, 7):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}/settings.yaml").write_text(THRESHOLD.format(number))
    (tmp_path / "..data").symlink_to("..50")
    (tmp_path / "settings.yaml").symlink_to("..data/settings.yaml")
    folder = Folder(str(tmp_path), open_watch=open_watch)
    assert threshold_of(folder) == 50
    (tmp_path / "..new").symlink_to("..7")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert threshold_of(folder) == 7


@WATCHES
def test_a_folder_that_goes_and_comes_back(tmp_path: Path, open_watch: OpenWatch) -> None:
    path = tmp_path / "node"
    path.mkdir()
    (path / "settings.yaml").write_text(THRESHOLD.format(50))
    folder = Folder(str(path), open_watch=open_watch)
    assert threshold_of(folder) == 50
    path.rename(tmp_path / "away")
    assert isinstance(folder.read(), Gap)
    path.mkdir()
    (path / "settings.yaml").write_text(THRESHOLD.format(7))
    assert threshold_of(folder) == 7
    (path / "settings.yaml").write_text(THRESHOLD.format(99))
    assert threshold_of(folder) == 99


def test_a_watched_folder_sees_what_no_time_stamp_shows(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(THRESHOLD.format(50))
    before = settings.stat()
    folder = Folder(str(tmp_path))
    assert threshold_of(folder) == 50
    settings.write_text(THRESHOLD.format(51))
    os.utime(settings, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert threshold_of(folder) == 51


def test_a_watched_folder_that_did_not_change_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    folder = Folder(str(tmp_path))
    first = folder.read()
    listed: list[str] = []

    def list_folder(path: str) -> list[str]:
        listed.append(path)
        return ["pod.yaml"]

    monkeypatch.setattr(os, "listdir", list_folder)
    assert all(folder.read() is first for _ in range(58))
    assert listed == []
    assert folder.read() is first, "once a minute each file is looked at all the same"
    assert listed == [str(tmp_path)]


THRESHOLD = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {{bestEffortShare: {{threshold: {}}}}}
"""


def test_two_pods_of_one_uid_are_told_and_the_last_counts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "b.yaml").write_text(POD.replace("name: web,", "name: copy,"))
    found = read(Folder(str(tmp_path)))
    assert [pod.name for pod in found.pods] == ["copy"]
    assert found.warnings == (f"the pods web and copy have one uid, {UID}: the last counts",)
    assert found.problems == ()


STATIC = "0123456789abcdef0123456789abcdef"
MIRROR_POD = f"""
kind: Pod
metadata:
  name: etcd-one
  namespace: kube-system
  uid: 99999999-0000-4000-8000-000000000001
  annotations: {{kubernetes.io/config.mirror: {STATIC}}}
  ownerReferences: [{{kind: Node, name: one, uid: node-uid, controller: true}}]
spec: {{containers: []}}
"""


@pytest.mark.parametrize(
    ("node", "host", "uid", "believed"),
    [
        ("one", "", "", True),
        ("", "one", "", True),
        ("", "ONE", "", True),
        ("two", "one", "", False),
        ("", "two", "", False),
        ("", "", "", False),
        ("", "two", "node-uid", True),  # the folder's only Node is this one
        ("one", "", "node-uid", True),
        ("one", "", "another", False),
    ],
)
def test_a_static_pod_is_believed_of_this_node(
    tmp_path: Path, node: str, host: str, uid: str, believed: bool
) -> None:
    """Where the folder has no Node, by the name that the agent goes by."""
    (tmp_path / "pod.yaml").write_text(MIRROR_POD)
    if uid:
        (tmp_path / "node.yaml").write_text(NODE.replace("name: one,", f"name: one, uid: {uid},"))
    found = read(Folder(str(tmp_path), node, host))
    assert [pod.cgroup_uid == STATIC for pod in found.pods] == [believed]
    assert len(found.problems) == (0 if believed else 1)


def test_another_pods_uid_is_not_to_be_claimed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / "b.yaml").write_text(MIRROR_POD.replace(STATIC, UID))
    found = read(Folder(str(tmp_path), "one"))
    assert {pod.name: pod.cgroup_uid for pod in found.pods}["web"] == UID
    assert len({pod.cgroup_uid for pod in found.pods}) == 2
    [problem] = sentences_of(found)
    assert problem.startswith("Pod kube-system/etcd-one: metadata.annotations")


def test_an_unclear_exemption_is_told_and_prevents_nothing(tmp_path: Path) -> None:
    annotated = POD.replace("name: web,", "name: web, annotations: {slackwater.io/exempt: on},")
    (tmp_path / "a.yaml").write_text(annotated.replace("exempt: on", "exempt: 'on'"))
    found = read(Folder(str(tmp_path)))
    [warning] = found.warnings
    assert "metadata.annotations['slackwater.io/exempt'] is 'on', but must be true" in warning
    assert warning.endswith("; until then it is exempt")
    assert found.problems == ()


POD_QOS = """
apiVersion: ensurance.crane.io/v1alpha1
kind: PodQOS
metadata: {name: batch}
spec:
  allowedActions: [throttle]
  scopeSelector:
    matchExpressions: [{scopeName: Priority, operator: In, values: ["VALUES"]}]
"""


def test_a_pod_qos_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    """Without any PodQOS every pod of low priority may be touched, which nobody meant."""
    file = tmp_path / "podqos.yaml"
    file.write_text(POD_QOS.replace("VALUES", "0--1000"))
    folder = Folder(str(tmp_path))
    found = read(folder)
    [stand_in] = found.ensurance.pod_qos
    assert (stand_in.metadata.name, stand_in.spec.allowed_actions) == ("batch", ())
    assert "'0--1000'" in sentences_of(found)[0]
    rewrite(file, POD_QOS.replace("VALUES", "-1000-0"))
    [good] = read(folder).ensurance.pod_qos
    assert good.spec.allowed_actions == ("throttle",)
    # What was good stays good.
    rewrite(file, POD_QOS.replace("VALUES", "low"))
    assert read(folder).ensurance.pod_qos == (good,)
