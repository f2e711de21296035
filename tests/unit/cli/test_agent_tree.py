"""Which of the trees an agent takes: its first line tells it."""

import json
from pathlib import Path

import pytest

from slackwater.observation.host import Roots
from tests.unit.cli.test_agent import V2, roots, slackwater
from tests.unit.doctor.host_tree import group, put

__all__ = ["roots"]
pytestmark = pytest.mark.long
POD = "pod0b3cb4ac"
ONCE = ("--standalone", "node", "--once", "--dry-run")


@pytest.mark.parametrize(
    ("flags", "because"),
    [
        ((), "kubepods is taken: no other one looks like it"),
        (("--kubepods", "kubepods"), "kubepods is taken: --kubepods names it"),
    ],
)
def test_the_only_tree_is_told_too(roots: Roots, flags: tuple[str, ...], because: str) -> None:
    group(roots, "kubepods/besteffort")
    done = slackwater(roots, "agent", *ONCE, *flags, **V2)
    line = json.loads(done.stdout.splitlines()[0])
    assert (line["what"], line["because"]) == ("kubelet's tree", because)


def test_a_named_configuration_says_which(roots: Roots) -> None:
    for path in (f"a/kubepods/{POD}", f"b/kubepods/{POD}"):
        group(roots, path)
    put(Path(roots.host) / "etc/k.yaml", "cgroupRoot: /b\n")
    done = slackwater(roots, "agent", *ONCE, SLACKWATER_KUBELET_CONFIG="/etc/k.yaml", **V2)
    assert "b/kubepods is taken, one of several that look like it: the kubelet's" in done.stdout
    wrong = slackwater(roots, "agent", *ONCE, "--kubelet-config", "/etc/no.yaml", **V2)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (1, "", 1)
    assert "'/etc/no.yaml' (--kubelet-config) is not readable" in wrong.stderr


@pytest.mark.parametrize(
    ("own", "other", "because"),
    [
        ("", "a/kubepods", "no other one has pods"),
        (f"0::/b/kubepods/besteffort/{POD}/x\n", f"a/kubepods/{POD}", "this process is in it"),
    ],
)
def test_which_of_two_trees_is_taken_is_told(
    roots: Roots, own: str, other: str, because: str
) -> None:
    group(roots, other)
    group(roots, f"b/kubepods/besteffort/{POD}")
    put(Path(roots.proc) / "self/cgroup", own)
    done = slackwater(roots, "agent", *ONCE, **V2)
    assert (done.returncode, done.stderr) == (0, "")
    line = json.loads(done.stdout.splitlines()[0])
    taken = "b/kubepods is taken, one of several that look like it: "
    assert (line["what"], line["because"]) == ("kubelet's tree", taken + because)
