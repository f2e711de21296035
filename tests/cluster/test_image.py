"""The image, built by the Dockerfile's own steps, and the wheel: as a node and a person run them.

They need the package registries once; what is built is kept in the cache. In the stage of the real
node: like that, it needs root.
"""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.cli.install import IMAGE, MANAGER_IMAGE, manifests
from tools.children import Children
from tools.image.__main__ import MANAGER, image_cache, lacks
from tools.image.archive import extract_layer, read_configuration
from tools.image.building import build
from tools.image.dockerfile import BASE_PATH
from tools.provision import ROOT, cache_folder, provide_uv, trusted_certificates
from tools.release.__main__ import ReleaseError, check_bills, image_twice, wheel_twice
from tools.release.sbom import debian_packages, encode, locked_packages, with_debian

pytestmark = pytest.mark.node

#: What the archive may weigh: Debian's base is 80 MB, Python 40, our environment 20.
LARGEST = 170_000_000
NOBODY = "65532:65532"
#: PEP 552: flags in the header of a .pyc; 1 is "by hash, not compared with the source".
UNCHECKED_HASH = (1).to_bytes(4, "little")
OURS = "opt/slackwater/lib/python3.11/site-packages"


@pytest.fixture(scope="session")
def archive() -> Path:
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    assert lacks(os.geteuid(), _which) == ""
    return build(Children(ROOT), ROOT, image_cache(), IMAGE)


def _which(program: str) -> str | None:
    from shutil import which

    return which(program)


@pytest.fixture(scope="session")
def root(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The image unpacked, as a runtime does it."""
    folder = tmp_path_factory.mktemp("image") / "root"
    extract_layer(archive, folder)
    folder.chmod(0o755)
    for above in folder.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)  # a stranger must be able to walk here
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def run(root: Path, *command: str, user: str = NOBODY) -> subprocess.CompletedProcess[str]:
    """In the root, which cannot be written, with the image's own environment."""
    script = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t proc proc "$1/proc" '
        '&& root=$1 && user=$2 && shift 2 && exec chroot --userspec="$user" "$root" "$@"'
    )
    inside = ["env", "-i", f"PATH=/opt/slackwater/bin:{BASE_PATH}", "LANG=C.UTF-8", *command]
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", str(root), user,
         "/usr/bin/env", *inside[1:]],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_it_runs_as_nobody_with_a_root_that_cannot_be_written(root: Path) -> None:
    done = run(root, "slackwater", "version")
    assert (done.stdout, done.stderr, done.returncode) == (f"{__version__}\n", "", 0)


def test_the_root_of_these_tests_cannot_be_written_indeed(root: Path) -> None:
    done = run(root, "touch", "/opt/slackwater/x", user="0:0")
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("command", ["agent", "manager", "status", "explain", "release", "install"])
def test_every_program_of_a_cluster_is_in_it(root: Path, command: str) -> None:
    done = run(root, "slackwater", command, "--help")
    assert (done.stderr, done.returncode) == ("", 0)
    assert f"Usage: slackwater {command}" in done.stdout


def test_it_prints_the_manifests_that_it_was_made_with(root: Path) -> None:
    said = run(root, "slackwater", "install", "--print", "--image", IMAGE)
    assert said.stdout == manifests()


def test_what_it_says_of_itself(archive: Path) -> None:
    said = read_configuration(archive)
    assert said["tags"] == [IMAGE]
    assert said["config"] == {
        "Env": [
            f"PATH=/opt/slackwater/bin:{BASE_PATH}",
            "MALLOC_ARENA_MAX=1",
            "PYTHONDONTWRITEBYTECODE=1",
        ],
        "Entrypoint": ["slackwater"],
        "Cmd": ["--help"],
        "WorkingDir": "/",
        "User": NOBODY,
        "Labels": {
            "org.opencontainers.image.title": "Slackwater",
            "org.opencontainers.image.description": "CPU quality of service for Kubernetes",
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


@pytest.mark.parametrize("folder", [OURS, "usr/lib/python3.11"])
def test_all_code_is_compiled_by_content(root: Path, folder: str) -> None:
    sources = [path for path in (root / folder).rglob("*.py") if "lib2to3/tests" not in str(path)]
    compiled = [path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc" for path in sources]
    assert len(compiled) > 100
    assert [path for path in compiled if not path.exists()] == []
    headers = {path: path.read_bytes()[4:8] for path in compiled}
    assert [path for path, flags in headers.items() if flags != UNCHECKED_HASH] == []


@pytest.mark.parametrize(
    "leftover",
    [
        "root/.cache",
        "run/slackwater-machine",
        "etc/resolv.conf",
        "etc/pip.conf",
        "etc/apt/sources.list",
        "opt/uv",
        "opt/build",
        "source",
        f"{OURS}/pip",
        f"{OURS}/hatchling",
        f"{OURS}/pytest",
    ],
)
def test_nothing_is_left_of_the_building(root: Path, leftover: str) -> None:
    assert not os.path.lexists(root / leftover)


@pytest.mark.parametrize("folder", ["var/lib/apt/lists", "var/cache/apt", "var/log", "tmp", "run"])
def test_these_folders_are_empty(root: Path, folder: str) -> None:
    assert [*(root / folder).iterdir()] == []


def test_nothing_of_this_machines_settings_is_left(root: Path) -> None:
    """Debian's own archive is named, and no other; no certificate of a proxy is trusted."""
    sources = (root / "etc/apt/sources.list.d/debian.sources").read_text()
    addresses = [row for row in sources.splitlines() if row.startswith("URIs:")]
    assert addresses == [
        "URIs: http://deb.debian.org/debian",
        "URIs: http://deb.debian.org/debian-security",
    ]
    assert not (root / "etc/ssl/certs/ca-certificates.crt").exists()
    here = os.uname().nodename.encode()
    assert [path for path in (root / "etc").rglob("host*") if here in _bytes(path)] == []


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b""


def test_it_weighs_no_more_than_it_should(archive: Path) -> None:
    assert archive.stat().st_size < LARGEST


def test_a_second_build_finds_the_first(archive: Path) -> None:
    first, second = (build(Children(ROOT), ROOT, image_cache(), IMAGE) for _ in range(2))
    assert first == second


@pytest.mark.timeout(3600)
def test_two_builds_from_one_base_are_equal_and_have_a_bill(tmp_path: Path) -> None:
    """Nothing but the base is shared; the bill is as CycloneDX's own schema says."""
    children, program = Children(ROOT), provide_uv(Children(ROOT), cache_folder(os.environ))
    made = image_twice(children, IMAGE, "", tmp_path / "image.tar")
    locked = locked_packages(children, program, ("kafka",), "2026-01-02T03:04:05+00:00")
    bill = with_debian(locked, debian_packages(made))
    assert {"python3.11", "msgspec", "libc6"} <= {each["name"] for each in bill["components"]}
    (tmp_path / "bill.json").write_bytes(encode(bill))
    check_bills(program, [tmp_path / "bill.json"])
    (tmp_path / "wrong.json").write_bytes(encode({**bill, "version": "one"}))
    with pytest.raises(ReleaseError, match=r"wrong\.json"):
        check_bills(program, [tmp_path / "wrong.json"])


# --- the wheel


def test_the_wheel_built_twice_is_equal(tmp_path: Path) -> None:
    made = wheel_twice(provide_uv(Children(ROOT), cache_folder(os.environ)), tmp_path)
    assert made.name == f"slackwater-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    uv(["build", "--quiet", "--wheel", "--out-dir", str(folder)])
    [made] = folder.glob("*.whl")
    return made


def uv(command: list[str]) -> None:
    program = provide_uv(Children(ROOT), cache_folder(os.environ))
    environ = {**os.environ, **trusted_certificates(os.environ)}
    subprocess.run([str(program), *command], check=True, cwd=ROOT, env=environ)


def test_the_wheel_holds_code_manifests_and_the_pages_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "slackwater",
        f"slackwater-{__version__}.dist-info",
    }
    page = ("slackwater/ui/static/", "slackwater/ui/templates/")
    ends = {
        Path(name).suffix
        for name in names
        if name.startswith("slackwater/") and not name.startswith(page)
    }
    assert ends == {".py", ".typed", ".yaml"}
    shown = {Path(name).suffix for name in names if name.startswith(page)}
    assert shown == {".css", ".html", ".js", ".svg", ".LICENSE"}
    assert "slackwater/manifests/slackwater.yaml" in names


def test_the_wheel_works_installed_elsewhere(wheel: Path, tmp_path: Path) -> None:
    uv(["venv", "--quiet", "--python", sys.executable, str(tmp_path / "elsewhere")])
    python = str(tmp_path / "elsewhere/bin/python")
    uv(["pip", "install", "--quiet", "--python", python, str(wheel)])
    program = str(tmp_path / "elsewhere/bin/slackwater")
    said = [
        subprocess.run(
            [program, *words], capture_output=True, text=True, check=True, cwd="/"
        ).stdout
        for words in (["version"], ["install", "--print", "--image", IMAGE])
    ]
    assert said == [f"{__version__}\n", manifests()]


@pytest.fixture(scope="session")
def manager_root(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """After the other one, with which it shares most steps."""
    made = build(Children(ROOT), ROOT, image_cache(), MANAGER_IMAGE, MANAGER)
    folder = tmp_path_factory.mktemp("manager") / "root"
    extract_layer(made, folder)
    folder.chmod(0o755)
    for above in folder.parents[:3]:
        above.chmod(above.stat().st_mode | 0o011)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_only_the_managers_image_has_numpy(root: Path, manager_root: Path) -> None:
    assert not (root / OURS / "numpy").exists()
    assert not (root / OURS / "cryptography").exists()
    python = "/opt/manager/bin/python"
    done = run(
        manager_root,
        python,
        "-c",
        "import slackwater.manager.program, numpy, cryptography; print(1)",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)
    done = run(root, "slackwater", "manager", "--kubeconfig", "/none")
    assert "slackwater[forecast]" in done.stderr or "/none" in done.stderr
