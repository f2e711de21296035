"""`slackwater doctor` as a person and a script see it: real processes, real exit codes."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from slackwater.cli.doctor import blocks
from slackwater.doctor.checkup import run_checks
from slackwater.observation.host import Roots
from tests.unit.doctor.host_tree import group, host, kubelet, put

WIDTH = {"COLUMNS": "120"}


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return host(tmp_path)


def doctor(roots: Roots, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    flags = ("--cgroup-root", roots.cgroup, "--proc-root", roots.proc, "--sys-root", roots.sys,
             "--host-root", roots.host)  # fmt: skip
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "CGROUP_"))}
    return subprocess.run(
        [sys.executable, "-m", "slackwater", "doctor", *flags, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean | WIDTH | environ,
    )


def v2(roots: Roots, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return doctor(roots, *arguments, SLACKWATER_CGROUP_VERSION="v2", **environ)


def test_healthy_is_zero_and_anyone_but_root_hears_why_not(roots: Roots) -> None:
    group(roots, "kubepods")
    group(roots, "kubepods/besteffort")
    done = v2(roots)
    root = os.geteuid() == 0
    assert (done.returncode, done.stderr) == (0 if root else 1, "")
    assert ("No problem found." if root else "Running as user ") in done.stdout
    assert "\x1b" not in done.stdout


def test_a_problem_is_one_and_says_what_to_do(roots: Roots) -> None:
    kubelet(roots)
    done = v2(roots)
    assert done.returncode == 1
    assert "A kubelet runs here, but its tree was not found" in done.stdout
    assert "→ Name the tree with --kubepods" in done.stdout


def test_json_has_the_documented_keys(roots: Roots) -> None:
    group(roots, "kubepods")
    document = json.loads(v2(roots, "-o", "json").stdout)
    assert document["apiVersion"] == "slackwater.io/v1"
    assert set(document["cgroup"]) >= {
        "version", "versionSource", "driver", "driverSource", "findings", "root", "kubepods",
    }  # fmt: skip
    assert set(document["cgroup"]["findings"][0]) == {"source", "found", "note"}
    assert set(document["knobs"][0]) == {"knob", "level", "file", "works", "note"}
    assert set(document["features"][0]) == {"feature", "possible", "because", "built"}
    assert set(document["machine"]) == {
        "cpus", "topology", "model", "smt", "turbo", "numaNodes", "psi",
    }  # fmt: skip
    assert isinstance(document["problems"], list)


@pytest.mark.parametrize("width", [60, 79, 80, 120])
def test_it_fits_the_screen(roots: Roots, width: int) -> None:
    """In 60 columns it was 80 wide, and every line was broken."""
    group(roots, "kubepods")
    group(roots, "kubepods/besteffort")
    report = run_checks(roots, {"SLACKWATER_CGROUP_VERSION": "v2"}, "")
    console = Console(width=width, file=io.StringIO(), record=True, highlight=False)
    for block in blocks(report, width, wide=False):
        console.print(block)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= width
    shown = " ".join(" ".join(lines).split())
    for words in ("Machine", "4 CPUs", "best_effort_share", "cpu-qos-level", "possible", "works"):
        assert words in shown
    assert ("cpu.max" in shown) == (width >= 80), "the files are left out where it is narrow"


def test_yaml_says_the_same(roots: Roots) -> None:
    assert yaml.safe_load(v2(roots, "-o", "yaml").stdout) == json.loads(
        v2(roots, "-o", "json").stdout
    )


def test_wide_shows_every_finding(roots: Roots) -> None:
    assert "VOLCANO_TEST_CGROUP_VERSION" in v2(roots, "-o", "wide").stdout
    assert "VOLCANO_TEST_CGROUP_VERSION" not in v2(roots).stdout


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SLACKWATER_CGROUP_VERSION", "3"),
        ("VOLCANO_TEST_CGROUP_VERSION", "cgroup2"),
        ("CGROUP_DRIVER", "Systemd"),
    ],
)
def test_a_bad_environment_value_is_two_and_one_sentence(
    roots: Roots, variable: str, value: str
) -> None:
    done = doctor(roots, **{variable: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"slackwater: {variable} is {value!r}; it must be ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--nonsense",), ("-o", "xml"), ("extra",)])
def test_wrong_usage_is_two(roots: Roots, arguments: tuple[str, ...]) -> None:
    done = doctor(roots, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


GARBAGE = [b"", b"\0" * 100, b"\xff\xfe" * 50, b"A" * 10_000_000, b"9" * 5000, b"{[}\n" * 99]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda g: f"{g[:4]!r}x{len(g)}")
def test_garbage_in_every_file_is_never_a_traceback(roots: Roots, garbage: bytes) -> None:
    kubelet(roots)
    put(Path(roots.host) / "var/lib/kubelet/config.yaml", "cgroupDriver: systemd\n")
    put(Path(roots.host) / "var/lib/kubelet/kubeadm-flags.env", "X")
    put(Path(roots.proc) / "self/mountinfo", "")
    put(Path(roots.proc) / "1/comm", "")
    group(roots, "kubepods")
    group(roots, "kubepods/besteffort")
    for folder in (roots.cgroup, roots.proc, roots.sys, roots.host):
        for file in Path(folder).rglob("*"):
            if file.is_file():
                file.write_bytes(garbage)
    for environ in ({}, {"SLACKWATER_CGROUP_VERSION": "v2"}):
        done = doctor(roots, "-o", "json", **environ)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
        assert json.loads(done.stdout)["kind"] == "DoctorReport"


def test_a_symlink_loop_and_unreadable_folders(roots: Roots) -> None:
    os.symlink(roots.cgroup, f"{roots.cgroup}/loop")
    os.symlink("self", f"{roots.cgroup}/self")
    os.symlink(f"{roots.host}/var", f"{roots.host}/var")
    done = v2(roots, "-o", "json")
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr


def test_nothing_there_at_all(tmp_path: Path) -> None:
    nowhere = Roots(*(f"{tmp_path}/{name}" for name in ("a", "b", "c", "d")))
    done = doctor(nowhere)
    assert done.returncode == 1
    assert "No cgroups: " in done.stdout
    assert "Traceback" not in done.stderr


def test_help_shows_examples_and_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slackwater", "doctor", "--help"],
        capture_output=True, text=True, check=True, env=os.environ | WIDTH,
    )  # fmt: skip
    text = re.sub(r"\s+", " ", done.stdout)
    assert "slackwater doctor -o json | jq .problems" in text
    assert "SLACKWATER_CGROUP_ROOT" in text
    assert "Exit codes: 0 no problem, 1 a problem was found, 2 wrong usage" in text
