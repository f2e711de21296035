"""`slackwater replay`: a file in, a table or data out, and the exit codes of both."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from slackwater.cli.main import slackwater
from slackwater.model.gap import Gap
from slackwater.record.recording import encode_recording
from tests.unit.record.ticks import run, threshold

HEAD = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"
LOWER = f"{HEAD}spec: {{bestEffortShare: {{threshold: 50}}}}\n"
OTHERS = f"apiVersion: v1\nkind: Node\nmetadata: {{name: here}}\n---\n{LOWER}"
ROW = re.compile(r"^ *\+[0-9]+\.[0-9]s ", re.MULTILINE)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SLACKWATER_OUTPUT", "SLACKWATER_NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    Path("node.jsonl").write_bytes(encode_recording(run([Gap("no usage"), 400, 0, 0])))
    Path("lower.yaml").write_text(LOWER)


def replay(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(slackwater, ["replay", *arguments], input=stdin)


def test_nothing_differs() -> None:
    done = replay("node.jsonl", "--exit-code")
    assert (done.exit_code, done.stderr) == (0, "")
    [line] = done.stdout.splitlines()
    assert line.startswith("4 ticks, recorded by slackwater ")
    assert line.endswith(": all the same today")


def test_what_differs_is_a_table() -> None:
    done = replay("node.jsonl", "--settings", "lower.yaml")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].endswith(": 1 the same today, 3 different")
    assert lines[2].split() == ["time", "what", "then", "now", "because"]
    assert lines[3].startswith("+1.0s  quota of kubepods/besteffort  400m  100m  best_effort_share")
    assert "The snapshots show what was written then" in done.stdout


@pytest.mark.parametrize(("option", "code"), [((), 0), (("--exit-code",), 1)])
def test_differences_are_no_error_unless_asked_for(option: tuple[str, ...], code: int) -> None:
    assert replay("node.jsonl", "--settings", "lower.yaml", *option).exit_code == code


def test_a_long_table_is_cut_and_wide_shows_all() -> None:
    Path("long.jsonl").write_bytes(encode_recording(run([100, *range(200, 230)])))
    short = replay("long.jsonl", "--settings", "lower.yaml").stdout
    wide = replay("long.jsonl", "--settings", "lower.yaml", "-o", "wide").stdout
    assert len(ROW.findall(short)) == 20
    assert "... and 11 more; -o wide shows all of them" in short
    assert len(ROW.findall(wide)) == 31
    assert "more" not in wide


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_for_scripts(form: str) -> None:
    done = replay("node.jsonl", "--settings", "lower.yaml", "-o", form)
    report = json.loads(done.stdout) if form == "json" else yaml.safe_load(done.stdout)
    assert (report["apiVersion"], report["kind"]) == ("slackwater.io/v1", "ReplayReport")
    assert (report["ticks"], report["same"], report["different"]) == (4, 1, 3)
    assert report["recordedBy"]
    assert report["problems"] == []
    assert report["differences"][0] == {
        "tick": 2,
        "at": 1_000_000,
        "aspect": "grant",
        "what": "quota of kubepods/besteffort",
        "then": "400m",
        "now": "100m",
        "because": "best_effort_share: used by all but best effort 400m, 500m allowed",
    }


def test_what_the_file_does_not_say_is_as_recorded() -> None:
    """A threshold of 50 was recorded; a file about the ramp leaves it."""
    Path("fifty.jsonl").write_bytes(encode_recording(run([400, 0, 0], settings=threshold(50))))
    Path("ramp.yaml").write_text(f"{HEAD}spec: {{bestEffortShare: {{recover: 100}}}}\n")
    report = json.loads(replay("fifty.jsonl", "--settings", "ramp.yaml", "-o", "json").stdout)
    assert [(d["then"], d["now"]) for d in report["differences"]] == [
        ("137m", "250m"),
    ]


def test_a_standalone_folders_file_may_hold_more() -> None:
    Path("others.yaml").write_text(OTHERS)
    assert replay("node.jsonl", "--settings", "others.yaml", "--exit-code").exit_code == 1


def test_problems_are_notes() -> None:
    data = Path("node.jsonl").read_bytes().replace(b'"threshold":80', b'"threshold":"80"', 1)
    done = replay("-", stdin=data)
    assert done.exit_code == 0
    note = "Note: the settings of best_effort_share cannot be read, so it is off"
    assert note in done.stdout


def test_standard_input() -> None:
    assert replay("-", stdin=Path("node.jsonl").read_bytes()).exit_code == 0
    bad = replay("-", stdin=b"{}\n")
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr == (
        "slackwater: standard input: line 1: apiVersion is missing, but must be slackwater.io/v1\n"
    )


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (b"", "bad.jsonl: line 1 is empty, but must be the head of a Recording"),
        (b"kind: Pod\n", "bad.jsonl: line 1 is no JSON object: this is no Recording"),
        (encode_recording(run([1]))[:-20], "bad.jsonl: line 3 is cut off: its end is missing"),
    ],
)
def test_no_recording_is_wrong_usage(contents: bytes, said: str) -> None:
    Path("bad.jsonl").write_bytes(contents)
    done = replay("bad.jsonl")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"slackwater: {said}\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.jsonl", "nowhere.jsonl cannot be read: No such file or directory"),
        (".", ". cannot be read: Is a directory"),
        ("a\0b", "cannot be read: no such path"),
    ],
)
def test_a_file_that_cannot_be_read(name: str, said: str) -> None:
    done = replay(name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}spec: {{bestEffortShare: {{threshold: 0}}}}", "threshold is 0, but must be"),
        (f"{HEAD}spec: {{best: {{}}}}", "is 'best', but must be one of"),
        ("kind: [", "new.yaml:"),
        ("", "new.yaml has 0 AgentSettings documents, but must have one"),
        ("apiVersion: v1\nkind: Node\n", "new.yaml has 0 AgentSettings documents"),
        (f"{LOWER}---\n{LOWER}", "new.yaml has 2 AgentSettings documents"),
        (None, "new.yaml is not readable"),
    ],
)
def test_wrong_settings(text: str | None, said: str) -> None:
    if text is not None:
        Path("new.yaml").write_text(text)
    done = replay("node.jsonl", "--settings", "new.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_pipe_of_the_shell() -> None:
    """`slackwater replay <(curl ...)` hands over a pipe, not a file."""
    script = f'"{sys.executable}" -m slackwater replay <(cat node.jsonl)'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "all the same today" in done.stdout
