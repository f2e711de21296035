"""The kubectl plugin: the wheel in a fresh environment, krew's archive and manifest, launcher."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from slackwater import __version__
from tools.children import Children
from tools.provision import ROOT, cache_folder, provide_uv, trusted_certificates
from tools.release import krew
from tools.release.__main__ import build_wheel, plugin


@pytest.fixture(scope="module")
def uv() -> Path:
    return provide_uv(Children(ROOT), cache_folder(os.environ))


@pytest.fixture(scope="module")
def wheel(uv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(uv, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def fresh(uv: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, its extra and nothing else, as uvx and pipx make
    one; the versions are the lock's."""
    folder = tmp_path_factory.mktemp("fresh")
    environ = {**os.environ, **trusted_certificates(os.environ)}
    locked, venv = folder / "locked.txt", folder / "venv"
    commands = (
        ["export", "--quiet", "--frozen", "--no-emit-project", "--no-hashes", "--no-dev",
         "--extra", "remote", "--output-file", str(locked)],
        ["venv", "--quiet", "--python", sys.executable, str(venv)],
        ["pip", "install", "--quiet", "--python", f"{venv}/bin/python", "--constraint",
         str(locked), f"{wheel}[remote]"],
    )  # fmt: skip
    for command in commands:
        subprocess.run([str(uv), *command], check=True, cwd=ROOT, env=environ)
    return venv / "bin"


def run(program: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **environ}
    return subprocess.run(
        [str(program), *arguments],
        capture_output=True, text=True, check=False, env=clean, cwd="/",
    )  # fmt: skip


def test_the_wheel_runs_by_itself(fresh: Path) -> None:
    done = run(fresh / "slackwater", "version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


def test_the_plugin_calls_itself_as_it_is_called(fresh: Path) -> None:
    done = run(fresh / "kubectl-slackwater", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: kubectl slackwater [OPTIONS] COMMAND")
    assert "  kubectl slackwater doctor          what this machine can do" in done.stdout


def test_the_plugin_completes(fresh: Path) -> None:
    done = run(fresh / "kubectl_complete-slackwater", "expl")
    assert done.stdout == "explain\tWhy each value is what it is, or why...\n:4\n"


def test_another_nodes_agent_can_be_asked_for(fresh: Path, tmp_path: Path) -> None:
    """As far as the API server's address, which is closed: the extra is there."""
    config = tmp_path / "config"
    config.write_text(
        yaml.safe_dump({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {}}],
        })
    )  # fmt: skip
    done = run(fresh / "kubectl-slackwater", "top", "--node", "n", KUBECONFIG=str(config))
    assert (done.returncode, done.stdout) == (1, "")
    assert "http://127.0.0.1:1: Connection refused; does the API server answer?" in done.stderr


def test_the_extra_is_the_libraries_alone(fresh: Path) -> None:
    found = (each.name for each in fresh.parent.glob("lib/*/site-packages/*.dist-info"))
    names = {name.partition("-")[0].lower() for name in found}
    assert "websockets" in names
    assert names.isdisjoint({"numpy", "cryptography", "kafka_python", "h11"})


def test_the_archive_has_the_launcher_and_the_wheel(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    [archive, manifest] = plugin(wheel, tmp_path, "https://mirror.example/v1/")
    [other, _] = plugin(wheel, tmp_path / "other", "https://mirror.example/v1/")
    assert archive.read_bytes() == other.read_bytes()
    with tarfile.open(archive) as opened:
        modes = {each.name: each.mode for each in opened.getmembers()}
    assert modes == {"kubectl-slackwater": 0o755, wheel.name: 0o644, "LICENSE": 0o644}
    told = yaml.safe_load(manifest.read_text())
    assert manifest.name == f"{told['metadata']['name']}.yaml"
    for platform in told["spec"]["platforms"]:
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert platform["uri"] == "https://mirror.example/v1/kubectl-slackwater.tar.gz"
        assert platform["bin"] in modes
    platforms = [each["selector"]["matchLabels"] for each in told["spec"]["platforms"]]
    assert platforms == [{"os": "linux", "arch": each} for each in ("amd64", "arm64")]


def test_without_an_address_it_is_nobodys() -> None:
    told = yaml.safe_load(krew.manifest("1.2.3", "00"))
    addresses = {told["spec"]["homepage"], *(each["uri"] for each in told["spec"]["platforms"])}
    assert {each.split("/")[2] for each in addresses} == {"slackwater.invalid"}
    assert len(told["spec"]["shortDescription"]) <= 50, "krew's own limit for its index"


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.2.3", "v1.2.3"),
        ("0.1.0.dev0", "v0.1.0-dev.0"),
        ("1.0.0rc2", "v1.0.0-rc.2"),
        ("1.0.0b1", "v1.0.0-b.1"),
    ],
)
def test_krew_wants_semantic_versions(version: str, told: str) -> None:
    assert krew.semantic_version(version) == told


def test_this_version_is_one_for_krew() -> None:
    assert krew.semantic_version(__version__).startswith("v")
    with pytest.raises(ValueError, match=r"1\.0\.post1 has no form that krew knows"):
        krew.semantic_version("1.0.post1")


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """As krew leaves it: a link on PATH to the launcher in its store. Its python3 only notes what
    it is asked, and makes an environment of scripts that say their names."""
    store, programs = tmp_path / "store", tmp_path / "bin"
    store.mkdir()
    programs.mkdir()
    (store / "kubectl-slackwater").write_bytes(krew.LAUNCHER.read_bytes())
    (store / "kubectl-slackwater").chmod(0o755)
    (store / "slackwater-1.2.3-py3-none-any.whl").touch()
    for name in ("kubectl-slackwater", "kubectl_complete-slackwater"):
        (programs / name).symlink_to(store / "kubectl-slackwater")
    python = programs / "python3"
    python.write_text(
        "#!/bin/sh\n"
        'echo "python3 $*" >> "$LOG"\n'
        '[ "$3" = --clear ] && mkdir -p "$4/bin" && cp "$0" "$4/bin/python"\n'
        "for each in kubectl-slackwater kubectl_complete-slackwater; do\n"
        '  [ "$3" = --clear ] && printf \'#!/bin/sh\\necho "%s $*"\\n\' $each > "$4/bin/$each"'
        ' && chmod +x "$4/bin/$each"\n'
        "done\n"
        '[ -z "$FAIL" ] || [ "$2" = venv ]\n'
    )
    python.chmod(0o755)
    return programs


def launch(programs: Path, name: str, *arguments: str, fail: str = "") -> tuple[int, str, str]:
    folder = programs.parent
    done = run(
        programs / name, *arguments, PATH=f"{programs}:{os.environ['PATH']}",
        XDG_CACHE_HOME=str(folder / "cache"), LOG=str(folder / "log"), FAIL=fail,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_the_launcher_installs_once_and_then_only_runs(unpacked: Path) -> None:
    place = unpacked.parent / "cache/slackwater/plugin/slackwater-1.2.3-py3-none-any"
    code, out, err = launch(unpacked, "kubectl-slackwater", "top", "--node", "a b")
    assert (code, out) == (0, "kubectl-slackwater top --node a b\n")
    assert err == f"slackwater: the first call installs what it needs into {place}\n"
    assert launch(unpacked, "kubectl_complete-slackwater", "to", "") == (
        0,
        "kubectl_complete-slackwater to \n",
        "",
    )
    wheel = unpacked.parent / "store/slackwater-1.2.3-py3-none-any.whl"
    assert (unpacked.parent / "log").read_text().splitlines() == [
        f"python3 -m venv --clear {place}",
        f"python3 -m pip install --quiet --disable-pip-version-check {wheel}[remote,forecast]",
    ]


def test_half_an_installation_is_made_again(unpacked: Path) -> None:
    assert launch(unpacked, "kubectl-slackwater", "top", fail="yes")[:2] == (1, "")
    assert launch(unpacked, "kubectl-slackwater", "top")[:2] == (0, "kubectl-slackwater top\n")
    assert len((unpacked.parent / "log").read_text().splitlines()) == 4
