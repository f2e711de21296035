"""`slackwater agent` and `release` where they cannot work: one sentence, the right exit code."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.cli.release import describe_release
from slackwater.execution.folder_lock import lock_directory, locked
from slackwater.model.units import Micros
from slackwater.observation.host import Roots
from slackwater.record.journal import JournalEntry
from tests.unit.agent.served import Served
from tests.unit.doctor.host_tree import group, host, put

pytestmark = pytest.mark.long


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
        check=False,
        cwd=top,
        env=clean | environ,
    )


V2 = {"SLACKWATER_CGROUP_VERSION": "v2"}
NOTHING = "Nothing was changed by the agent, so nothing had to be restored\n"
HEAD = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "said"),
    [
        ((), {}, 1, "not a cgroup file system"),
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
    assert done.stderr.startswith("Usage: " if "--on-exit" in arguments else "slackwater: ")


def test_signals_are_for_a_node_without_a_cluster(roots: Roots) -> None:
    done = slackwater(roots, "agent", "--evict-by-signal", **V2)
    assert done.returncode == 2
    assert "--evict-by-signal needs --standalone" in done.stderr


def written(roots: Roots) -> dict[str, str]:
    files = (path for path in Path(roots.cgroup).rglob("*") if path.is_file())
    return {str(path): path.read_text() for path in files}


POD = "pod0b3cb4ac"


def test_of_two_live_trees_none_is_taken(roots: Roots) -> None:
    group(roots, f"a/kubepods/besteffort/{POD}")
    group(roots, f"b/kubepods/besteffort/{POD}")
    before = written(roots)
    done = slackwater(roots, "agent", "--standalone", "node", "--once", **V2)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "(a/kubepods, b/kubepods)" in done.stderr
    assert "--kubepods" in done.stderr
    assert written(roots) == before
    state = Path(roots.host).parent / "state"
    assert not state.exists()
    state.mkdir()
    freed = slackwater(roots, "release", **V2)  # from the ledger alone
    assert (freed.returncode, freed.stdout, freed.stderr) == (0, NOTHING, "")


def test_two_agents_with_folders_of_their_own_do_not_work_on_one_tree(roots: Roots) -> None:
    """Each would take the other for the kubelet."""
    group(roots, "kubepods/besteffort")
    tree = f"{roots.cgroup}/kubepods"
    lock = lock_directory(tree)
    assert isinstance(lock, int)
    done = slackwater(roots, "agent", "--standalone", "node", "--once", **V2)
    os.close(lock)
    assert done.returncode == 1
    assert done.stderr == f"slackwater: another agent works on {tree}; one agent per node\n"


@pytest.mark.parametrize(("driver", "told"), [("cgroupfs", 0), ("systemd", 1)])
def test_release_asks_systemd_wherever_there_is_one(roots: Roots, driver: str, told: int) -> None:
    """An agent may have set units in a tree that is gone by now. This systemd does not answer,
    which matters to those alone who are told that it owns the tree."""
    group(roots, "kubepods")
    put(Path(roots.host) / "run/systemd/private", "no socket")
    (Path(roots.host).parent / "state").mkdir()
    done = slackwater(roots, "release", "-o", "json", CGROUP_DRIVER=driver, **V2)
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, told, "")


def test_a_folder_that_is_not_there_is_wrong_usage(roots: Roots) -> None:
    done = slackwater(roots, "agent", "--standalone", "nowhere", **V2)
    assert done.returncode == 2
    assert done.stderr == (
        "slackwater: --standalone is 'nowhere': the folder nowhere cannot be read: "
        "No such file or directory\n"
    )


@pytest.mark.parametrize("folder", ["node", "nowhere", ""])
def test_wrong_settings_are_told_before_anything_about_the_machine(
    roots: Roots, folder: str
) -> None:
    """There is no kubelet's tree, or no such folder, or no cluster: none of it hides them."""
    place = ("--standalone", folder) if folder else ("--node", "a")
    flags = ("--period", "1x", "--best-effort-share-threshold", "0")
    done = slackwater(roots, "agent", *place, *flags, **V2, HOME="/nowhere", KUBECONFIG="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "agent.period (--period or SLACKWATER_PERIOD) is '1x'" in done.stderr
    assert "bestEffortShare.threshold (" in done.stderr
    other = {"node": "", "nowhere": "--standalone is 'nowhere'", "": "no cluster is known"}[folder]
    assert other in done.stderr
    assert all(line.startswith("slackwater: ") for line in done.stderr.splitlines())


def test_every_file_and_flag_that_is_wrong_is_told_at_once(roots: Roots) -> None:
    folder = Path(roots.host).parent / "node"
    put(folder / "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n")
    put(folder / "set.yaml", f"{HEAD}spec: {{bestEffortShare: {{threshold: 0, jitter: -1}}}}")
    done = slackwater(roots, "agent", "--standalone", "node", "--period", "1x", **V2)
    assert done.returncode == 2
    for part in ("pod.yaml: metadata.name is 7", "threshold is 0", "jitter is -1", "is '1x'"):
        assert part in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--node", "a"), 2, "--scratch needs --standalone"),
        (("--standalone", "node", "--kubepods", "x"), 2, "makes the tree of --kubepods itself"),
        (("--standalone", "node"), 1, "--scratch: the folder has no pods"),
    ],
)
def test_a_scratch_tree_is_for_the_pods_of_a_folder(
    roots: Roots, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = slackwater(roots, "agent", "--scratch", *arguments, **V2)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


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
    assert (done.returncode, done.stdout) == (0, NOTHING)
    assert "state, so nothing was noted there" in done.stderr
    assert not (Path(roots.host).parent / "state").exists()
    (Path(roots.host).parent / "state").mkdir()
    again = slackwater(roots, "release", **V2)
    assert (again.returncode, again.stdout, again.stderr) == (0, NOTHING, "")
    lines = slackwater(roots, "release", "-o", "json", **V2)
    assert (lines.returncode, lines.stdout, lines.stderr) == (0, "", "")


def test_release_without_cgroups_is_one_sentence(roots: Roots) -> None:
    (Path(roots.host).parent / "state").mkdir()
    done = slackwater(roots, "release")
    assert done.returncode == 1
    assert "not a cgroup file system" in done.stderr
    wrong = slackwater(roots, "release", SLACKWATER_CGROUP_VERSION="7")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "Traceback" not in done.stderr


@pytest.fixture
def top(roots: Roots) -> Path:
    """Where a tree is, so that an agent can run."""
    group(roots, "kubepods")
    group(roots, "kubepods/besteffort")
    return Path(roots.host).parent


BAD = "'10480'; it must be an IP address and a port from 0 to 65535"


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [(("--listen", "10480"), {}), ((), {"SLACKWATER_LISTEN": "10480"}), (("--listen=10480",), V2)],
)
def test_a_bad_address_is_wrong_usage(
    roots: Roots, arguments: tuple[str, ...], environ: dict[str, str]
) -> None:
    done = slackwater(roots, "agent", "--standalone", "node", *arguments, **environ)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert BAD in done.stderr


def test_a_port_in_use_is_one_sentence(roots: Roots, top: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = slackwater(roots, "agent", "--standalone", "node", "--listen", address, **V2)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert f"cannot listen on {address}: Address already in use" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (top / "state/agent.sock").exists()


ONCE = ("--standalone", "node", "--once", "--period", "100ms")


@pytest.mark.parametrize(
    ("arguments", "environ", "listens"),
    [
        ((), {}, False),
        (("--dry-run",), {}, False),
        (("--listen", ""), {"SLACKWATER_LISTEN": "127.0.0.1:0"}, False),
        ((), {"SLACKWATER_LISTEN": ""}, False),
        (("--listen", "127.0.0.1:0"), {}, True),
        ((), {"SLACKWATER_LISTEN": "[::1]:0"}, True),
        (("--dry-run", "--listen", "localhost:0"), {}, True),
    ],
)
def test_whether_it_listens(
    roots: Roots, top: Path, arguments: tuple[str, ...], environ: dict[str, str], listens: bool
) -> None:
    done = slackwater(roots, "agent", *ONCE, *arguments, **V2, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    told = [
        line for line in map(json.loads, done.stdout.splitlines()) if line["what"] == "endpoint"
    ]
    assert len(told) == listens
    if listens:
        assert re.fullmatch(r"listening on http://\S+:[1-9][0-9]*", told[0]["because"])
    dry = "--dry-run" in arguments
    assert (top / "state").exists() is not dry
    assert not (top / "state/agent.sock").exists()  # it is over


def test_every_line_has_the_time_of_day_first(roots: Roots, top: Path) -> None:
    done = slackwater(roots, "agent", *ONCE, "--listen", "127.0.0.1:0", **V2)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    for line in lines:
        assert next(iter(line)) == "time"
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_a_state_folder_too_deep_for_a_socket_is_one_sentence(roots: Roots, top: Path) -> None:
    deep = f"{top}/{'x' * 100}"
    done = slackwater(roots, "agent", "--standalone", "node", "--state", deep, **V2)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    path = f"{deep}/agent.sock"
    assert (
        f"--state is too long: the path of the socket {path} has {len(path)} bytes" in done.stderr
    )
    assert "it may have 107" in done.stderr
    assert not Path(deep).exists()


def test_release_asks_nobody_who_holds_no_ledger(roots: Roots, top: Path) -> None:
    """The lock is free, so whoever listens there is somebody else."""
    state = top / "state"
    state.mkdir()
    served = Served(str(state))
    done = slackwater(roots, "release", **V2)
    served.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, NOTHING, "")
    assert served.released == 0


def test_release_asks_who_holds_the_ledger(roots: Roots, top: Path) -> None:
    state = top / "state"
    state.mkdir()
    lock = locked(str(state / "ledger.lock"))
    served = Served(str(state))
    done = slackwater(roots, "release", "-o", "json", **V2)
    for_people = slackwater(roots, "release", **V2)
    served.close()
    assert isinstance(lock, int)
    os.close(lock)
    assert (done.returncode, served.released) == (0, 2)
    assert for_people.stdout.startswith("quota of kubepods/besteffort: ")
    assert for_people.stdout.endswith("\n1 value is restored\n")
    [line] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (line["what"], line["result"]) == ("quota of kubepods/besteffort", "applied")
    assert next(iter(line)) == "time"
    said = "the running agent did it and is paused until `slackwater resume`"
    assert done.stderr == f"slackwater: {said}\n"


def test_a_release_is_told_for_people() -> None:
    def entry(what: str, result: str, before: str = "", after: str = "") -> JournalEntry:
        return JournalEntry(0, Micros(0), what, before, after, "it is busy", result)

    entries = [
        entry("quota of a", "applied", "600m", "unlimited"),
        entry("idle of b", "unchanged", "0", "0"),
        entry("weight of c", "vanished"),
        entry("quota of d", "refused", "600m", "unlimited"),
        entry("systemd", ""),
    ]
    assert list(describe_release(entries, 1)) == [
        "quota of a: 600m → unlimited",
        "idle of b: is 0 already",
        "weight of c: its cgroup is gone",
        "quota of d: refused: it is busy",
        "systemd: it is busy",
        "1 value could not be restored; run it again once the reason is gone",
    ]
    assert list(describe_release(entries[:3], 0))[-1] == "3 values are restored"


def test_release_where_the_agent_cannot_be_asked(roots: Roots, top: Path) -> None:
    state = top / "state"
    state.mkdir()
    lock = locked(str(state / "ledger.lock"))
    assert isinstance(lock, int)
    unasked = slackwater(roots, "release", **V2)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(state / "agent.sock"))
        unheard = slackwater(roots, "release", **V2)
    os.close(lock)
    for done, said in (
        (unasked, "agent.sock: No such file or directory; stop it first"),
        (unheard, "agent.sock: Connection refused; stop it first"),
    ):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert f"process {os.getpid()} holds the ledger" in done.stderr
        assert said in done.stderr
