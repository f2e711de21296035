"""`slackwater agent` and `release` where they cannot work: one sentence, the right exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.observation.roots import Roots
from tests.unit.doctor.host_tree import group, host, put


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    made = host(tmp_path)
    put(Path(made.proc) / "sys/kernel/random/boot_id", "this-boot\n")
    (tmp_path / "node").mkdir()
    return made


def slackwater(
    roots: Roots, command: str, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    top = Path(roots.host).parent
    place = ("--cgroup-root", roots.cgroup, "--proc-root", roots.proc, "--sys-root", roots.sys,
             "--host-root", roots.host, "--state", f"{top}/state")  # fmt: skip
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "CGROUP_"))}
    return subprocess.run(
        [sys.executable, "-m", "slackwater", command, *place, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=top,
        env=clean | environ,
    )


V2 = {"SLACKWATER_CGROUP_VERSION": "v2"}
HEAD = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "said"),
    [
        ((), {}, 1, "no cgroup file system"),
        ((), V2, 1, "there is no kubepods or kubepods.slice"),
        ((), {"SLACKWATER_CGROUP_VERSION": "3"}, 2, "SLACKWATER_CGROUP_VERSION is '3'"),
        (("--kubepods", "../.."), V2, 1, "is not a path inside"),
        (("--on-exit", "maybe"), V2, 2, "maybe"),
    ],
)
def test_what_is_missing_is_one_sentence(
    roots: Roots, arguments: tuple[str, ...], environ: dict[str, str], code: int, said: str
) -> None:
    done = slackwater(roots, "agent", "--standalone", "node", *arguments, **environ)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_there_is_wrong_usage(roots: Roots) -> None:
    done = slackwater(roots, "agent", "--standalone", "nowhere", **V2)
    assert done.returncode == 2
    assert "nowhere" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Node\nmetadata: {name: x", "bad.yaml:"),
        (
            f"{HEAD}spec: {{bestEffortShare: {{threshold: 0}}}}",
            "bestEffortShare.threshold is 0",
        ),
        ("cpuThrottlingConfig: {enable: true, cpuThrottlingThreshold: 101}", "is 101"),
    ],
)
def test_wrong_settings_end_a_start(roots: Roots, text: str, said: str) -> None:
    group(roots, "kubepods")
    put(Path(roots.host).parent / "node/bad.yaml", text)
    done = slackwater(roots, "agent", "--standalone", "node", **V2)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_to_release_is_rightly_nothing(roots: Roots) -> None:
    group(roots, "kubepods")
    done = slackwater(roots, "release", **V2)
    assert (done.returncode, done.stdout) == (0, "")
    assert "state, so nothing was noted there" in done.stderr
    assert not (Path(roots.host).parent / "state").exists()
    (Path(roots.host).parent / "state").mkdir()
    again = slackwater(roots, "release", **V2)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_release_without_cgroups_is_one_sentence(roots: Roots) -> None:
    (Path(roots.host).parent / "state").mkdir()
    done = slackwater(roots, "release")
    assert done.returncode == 1
    assert "no cgroup file system" in done.stderr
    wrong = slackwater(roots, "release", SLACKWATER_CGROUP_VERSION="7")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "Traceback" not in done.stderr
