"""python -m tools.cluster: what is asked for, what is refused, and what a person is told."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tools.cluster import NODE_NEEDS
from tools.cluster.__main__ import main, options_of, parse, watch, wish_of
from tools.cluster.control_plane import ControlPlane
from tools.cluster.places import sole_owner
from tools.cluster.playground import Cluster, Wish, advice, running_clusters
from tools.cluster.processes import ClusterError, find_programs


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], Wish("default", 0, 0)),
        (["run", "--node"], Wish("default", 1, 0)),
        (["up", "--name", "a-1", "--kwok", "100"], Wish("a-1", 0, 100)),
    ],
)
def test_a_wish_is_understood_and_passed_on(arguments: list[str], expected: Wish) -> None:
    chosen = parse(arguments)
    assert wish_of(chosen) == expected
    assert wish_of(parse(["run", *options_of(chosen)])) == expected


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "ACTION"),
        (["nonsense"], "nonsense"),
        (["run", "--name", "../a"], "../a is not 1 to 20 small letters, digits and dashes"),
        (["run", "--name", ""], "'' is not 1 to 20 small letters"),
        (["run", "--name", "a" * 21], "is not 1 to 20 small letters"),
        (["up", "--kwok", "5001"], "'5001' is not a number from 0 to 5000"),
        (["up", "--kwok", "-1"], "--kwok"),
        (["up", "--kwok", "many"], "'many' is not a number"),
        (["down", "--node"], "--node"),
        (["check"], "program"),
    ],
)
def test_wrong_usage_is_two(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


def test_programs_are_wished_for_as_far_as_needed() -> None:
    plain = set(Wish("a", 0, 0).programs)
    assert {"etcd", "kubectl"} <= plain
    assert set(Wish("a", 1, 0).programs) - plain == {"kubelet"}
    assert set(Wish("a", 1, 9).programs) - plain == {"kubelet", "kwok"}


def test_nothing_runs_and_nothing_can_be_ended(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status"]) == 0
    assert capsys.readouterr().out == "no cluster runs\n"
    assert main(["down", "--name", "a"]) == 1
    assert capsys.readouterr().err == "cluster: no cluster a runs\n"


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        ((), "cluster a has no node; one begins with --node"),
        (("node/pid",), "there is no file"),
        (("node/pid", "image.tar"), "cannot be imported: "),
    ],
)
def test_an_image_that_cannot_be_loaded_is_told(
    prepare: tuple[str, ...],
    told: str,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools.cluster.places.remove_root", lambda *_: None)
    folder = cache / "clusters/a"
    archive = folder / "image.tar"
    assert main(["load", "--name", "a", str(archive)]) == 1
    assert capsys.readouterr().err == "cluster: no cluster a runs\n"
    with sole_owner(folder):
        for name in prepare:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("999999999")  # above any pid
        assert main(["load", "--name", "a", str(archive)]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wish", "expected"),
    [(Wish("a", 0, 9), ()), (Wish("a", 1, 0), ("kubectl run hog", "--name a", "helm install"))],
)
def test_what_to_try_next_is_what_the_cluster_can(wish: Wish, expected: tuple[str, ...]) -> None:
    tools = {"kubectl": Path("/p/kubectl"), "helm": Path("/p/helm")}
    plane = SimpleNamespace(kubeconfig=lambda: "/c/admin", programs=tools, folder=Path("/c"))
    lines = advice(cast("ControlPlane", plane), wish)
    assert lines[0] == "export KUBECONFIG=/c/admin"
    assert lines[1] == "alias kubectl=/p/kubectl helm=/p/helm"
    assert "kubectl get nodes,pods -A" in lines
    said = "\n".join(lines)
    assert all(word in said for word in expected)
    assert ("helm install" in said) is bool(wish.nodes)


def test_a_running_cluster_is_listed_and_not_started_again(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.cluster.places.remove_root", lambda *_: None)
    with sole_owner(cache / "clusters/a"):
        [line] = running_clusters(cache / "clusters")
        assert line.split("\t")[0] == "a"
        assert line.endswith("/clusters/a/kubeconfigs/admin")
        assert main(["up", "--name", "a"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("cluster: cluster a runs already; ")
    assert 'ARGS="--name b"' in said
    assert said.count("\n") == 1


def test_down_removes_what_a_killed_one_left(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr("tools.cluster.places.remove_root", lambda name, _: removed.append(name))
    folder = cache / "clusters/a"
    (folder / "etcd").mkdir(parents=True)
    folder.with_name("a.lock").write_text("999999999")
    assert main(["down", "--name", "a"]) == 0
    assert capsys.readouterr().err == (
        "cluster: a was killed before; what it had left is removed\n"
    )
    assert not folder.exists()
    assert [name.startswith("slackwater-a-") for name in removed] == [True]
    assert main(["down", "--name", "a"]) == 1
    assert capsys.readouterr().err == "cluster: no cluster a runs\n"


class Falling:
    """A cluster, one program of which has ended."""

    def ended(self) -> list[str]:
        return ["kube-apiserver"]

    def log(self, name: str) -> Path:
        return Path(f"/c/logs/{name}.log")


def test_the_log_of_a_program_that_ended_is_named_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps = iter((None, None))

    def nap(_seconds: float) -> None:
        if next(naps, KeyboardInterrupt) is KeyboardInterrupt:
            raise KeyboardInterrupt

    monkeypatch.setattr("tools.cluster.__main__.time.sleep", nap)
    with pytest.raises(KeyboardInterrupt):
        watch(cast("Cluster", Falling()))
    assert capsys.readouterr().err == (
        "cluster: kube-apiserver ended by itself; /c/logs/kube-apiserver.log tells why\n"
    )


def test_check_tells_what_a_node_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["check", "etcd", "kwok"]) == 0
    assert main(["check", "etcd", "kubelet"]) == 1
    first, package = next(iter(NODE_NEEDS.items()))
    assert capsys.readouterr().err == f"cluster: {first} is missing: apt-get install {package}.\n"


def test_a_program_that_a_variable_names_is_taken(tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.touch(0o755)
    environ = {"SLACKWATER_ETCD": str(program), "HOME": "/nowhere"}
    assert find_programs(["etcd"], environ) == {"etcd": program}
    program.chmod(0o644)
    with pytest.raises(ClusterError, match=r"SLACKWATER_ETCD is '.*/etcd', which is no program"):
        find_programs(["etcd"], environ)
