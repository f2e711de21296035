"""What scripts and people rely on, as data: commands, flags, variables, exit codes, JSON, metrics.

    python -m tools.surface print            # of this tree
    python -m tools.surface compare COMMIT   # what differs from that commit; exit 1 if anything

Values that the machine or the time decides are reduced to their shape (keys and types). What a
running agent shows needs root and a writable cgroup hierarchy.
"""

import argparse
import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.endpoint_client import ask_agent

ROOT = Path(__file__).parent.parent
#: Annotations, labels, taints and resources: a domain, a slash, a name.
_QUALIFIED = re.compile(r"[a-z0-9.-]+\.(?:io|sh|com)/[A-Za-z0-9_./-]+")
_VARIABLE = re.compile(r"\b(?:SLACKWATER|PROMETHEUS|KAFKA|VM|HPA)_[A-Z0-9_]+\b")
_METRIC_ROW = re.compile(r"^\| `([a-z0-9_]+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
#: Exact: the same input gives the same answer, whatever the machine.
_EXACT = (
    *(
        ("simulate", f"examples/scenarios/{name}.yaml", "-o", "json")
        for name in ("spikes", "noisy-neighbour", "best-effort-only", "nightly-batch")
    ),
    ("rebalance", "simulate", "-o", "json"),
)
_SHAPED = (("doctor", "-o", "json"),)
#: What goes wrong, for the exit code alone.
_WRONG = (
    ("nothing",),
    ("simulate", "no-such-file.yaml"),
    ("simulate",),
    ("replay", "no-such-file.jsonl"),
    ("agent", "--period", "1x"),
    ("agent", "--standalone", "no-such-folder", "--once"),
    ("rebalance", "plan", "web", "--top-k", "-1"),
    ("rebalance", "simulate", "--tolerance", "x"),
    ("forecast", "backtest", "no-such-file.csv"),
    ("forecast", "backtest", "--window", "x"),
    ("explain", "--address", "127.0.0.1:1"),
    ("doctor", "-o", "xml"),
    ("version",),
)
_SETTINGS = """apiVersion: slackwater.io/v1
kind: AgentSettings
spec:
  agent: {reading: everything}
  bestEffortShare: {enabled: true}
  qosLevel: {enabled: true}
"""
_PROBE_COMMANDS = """
import json, click
from slackwater.cli.main import slackwater
def walk(command, name):
    yield name, [
        {"name": p.name, "options": sorted([*p.opts, *p.secondary_opts]), "variable": p.envvar,
         "default": "computed" if callable(p.default) else repr(p.default), "type": p.type.name,
         "multiple": getattr(p, "multiple", False), "required": p.required}
        for p in command.params]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in sorted(command.list_commands(context)):
            yield from walk(command.get_command(context, sub), f"{name} {sub}")
print(json.dumps(dict(walk(slackwater, "slackwater")), sort_keys=True, default=str))
"""


class Tree:
    """One checkout, and how its program is called."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        #: Where commands run, as some leave a picture there.
        self._folder = folder
        shutil.copytree(root / "examples", folder / "examples")
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SLACKWATER_")},
            "PYTHONPATH": str(root / "src"),
            "COLUMNS": "100",
        }

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def slackwater(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "slackwater", *arguments)

    def start_agent(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "slackwater", "agent", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def shape(value: object) -> object:
    """Keys and types; lists by what their elements can be, and so what is kept by id."""
    match value:
        case dict() if value and all(key.isdigit() for key in value):
            return {"ID": shape(list(value.values()))}
        case dict():
            return {key: shape(each) for key, each in sorted(value.items())}
        case list():
            shapes = {json.dumps(shape(each), sort_keys=True) for each in value}
            return [json.loads(each) for each in sorted(shapes)]
        case _:
            return type(value).__name__


def _commands(tree: Tree) -> object:
    done = tree.python("-c", _PROBE_COMMANDS)
    if done.returncode:
        raise SystemExit(f"the commands of {tree.root} cannot be listed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _strings(tree: Tree) -> Iterator[str]:
    for path in sorted((tree.root / "src/slackwater").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _names(tree: Tree) -> dict[str, list[str]]:
    """Of annotations and variables, as they stand in the source."""
    texts = list(_strings(tree))
    return {
        "qualified": sorted({each for text in texts for each in _QUALIFIED.findall(text)}),
        "variables": sorted({each for text in texts for each in _VARIABLE.findall(text)}),
    }


def _documented_metrics(tree: Tree) -> list[str]:
    pages = ("metrics.md", "rebalancer-metrics.md", "manager.md")
    return sorted(
        " ".join(part.strip() for part in row)
        for page in pages
        for row in _METRIC_ROW.findall((tree.root / "docs/reference" / page).read_text("utf-8"))
    )


def _outputs(tree: Tree) -> dict[str, object]:
    found: dict[str, object] = {}
    for command in (*_EXACT, *_SHAPED):
        done = tree.slackwater(*command)
        parsed = json.loads(done.stdout) if done.stdout.strip() else done.stderr[-500:]
        found[" ".join(command)] = {
            "exit": done.returncode,
            "out": parsed if command in _EXACT else shape(parsed),
        }
    for command in _WRONG:
        found[" ".join(command)] = {"exit": tree.slackwater(*command).returncode}
    found["install --print"] = _manifests(tree)
    return found


def _manifests(tree: Tree) -> list[str]:
    done = tree.slackwater("install", "--print", "--image", "example.invalid/slackwater:1")
    return done.stdout.splitlines() if done.returncode == 0 else [done.stderr[-500:]]


def _hierarchies() -> list[Path]:
    base = Path("/sys/fs/cgroup")
    names = ("cpu", "cpuacct", "cpuset", "memory")
    v1 = {(base / name).resolve() for name in names if (base / name).is_dir()}
    return sorted(v1) or [base]


def _running(tree: Tree) -> dict[str, object]:
    """Shapes of what a running agent answers, on a small tree of cgroups of its own."""
    name = f"slackwater-surface-{os.getpid()}"
    made: list[Path] = []
    try:
        for hierarchy in _hierarchies():
            for below in ("", "/kubepods", "/kubepods/besteffort", "/kubepods/burstable",
                          "/kubepods/besteffort/pod0000"):  # fmt: skip
                made.append(hierarchy / f"{name}{below}")
                made[-1].mkdir()
        with tempfile.TemporaryDirectory() as folder:
            return _answers(tree, name, Path(folder))
    finally:
        for path in reversed(made):
            if path.is_dir():
                path.rmdir()


def _answers(tree: Tree, name: str, folder: Path) -> dict[str, object]:
    (folder / "node").mkdir()
    (folder / "node/settings.yaml").write_text(_SETTINGS)
    state = str(folder / "state")
    agent = tree.start_agent(
        "--standalone", str(folder / "node"), "--kubepods", f"{name}/kubepods", "--state", state,
        "--listen", "127.0.0.1:10991", "--on-exit", "release", "--node", "surface",
    )  # fmt: skip
    try:
        while tree.slackwater("top", "--state", state, "-o", "json").returncode:
            if agent.poll() is not None:
                raise SystemExit(f"the agent of {tree.root} ended with {agent.returncode}")
            time.sleep(0.2)
        time.sleep(3)  # a few ticks, so that rates and journal lines are there
        answers: dict[str, object] = {}
        for command in (("top",), ("explain",), ("explain", "besteffort")):
            done = tree.slackwater(*command, "--state", state, "-o", "json")
            answers[" ".join(command)] = shape(json.loads(done.stdout))
        answers["metrics"] = _scrape("http://127.0.0.1:10991/metrics")
        ticks = _ticks(state).splitlines()
        answers["ticks"] = shape(json.loads(ticks[-1]))
        return answers
    finally:
        agent.terminate()
        agent.wait()


def _ticks(state: str) -> str:
    """Older agents served it over TCP."""
    path = socket_path(state)
    if not os.path.exists(path):
        return _fetch("http://127.0.0.1:10991/v1/ticks")
    return ask_agent(path, "GET", "/v1/ticks", 30).body.decode()


def _fetch(address: str) -> str:
    import urllib.request

    with urllib.request.urlopen(address, timeout=30) as answer:
        text: bytes = answer.read()
    return text.decode()


def _scrape(address: str) -> list[str]:
    """Series without their values."""
    lines = _fetch(address).splitlines()
    return sorted({line.rpartition(" ")[0] for line in lines if not line.startswith("#")})


def read_surface(root: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(root, Path(folder))
        return {
            "commands": _commands(tree),
            "names": _names(tree),
            "metrics": _documented_metrics(tree),
            "outputs": _outputs(tree),
            "running": _running(tree),
        }


def _text(surface: object) -> list[str]:
    return json.dumps(surface, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def compare(commit: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "-q", "--detach", str(before), commit], check=True)
        try:
            old = read_surface(before)
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    new = read_surface(ROOT)
    differences = list(difflib.unified_diff(_text(old), _text(new), commit, "this tree", n=6))
    print("\n".join(differences) or f"surface: the same as {commit}")
    return 1 if differences else 0


def main(arguments: Sequence[str]) -> int:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tools.surface", description=__doc__, formatter_class=plain)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("print")
    verbs.add_parser("compare").add_argument("commit")
    options = parser.parse_args(arguments)
    if options.verb == "compare":
        return compare(options.commit)
    print("\n".join(_text(read_surface(ROOT))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
