"""`slackwater record`: what the agent has kept, byte for byte, or one sentence."""

from pathlib import Path

from slackwater.agent.recording_replay import as_recorded
from slackwater.agent.recording_replay import replay as run_replay
from slackwater.model.gap import Gap
from slackwater.policies.catalog import POLICIES
from slackwater.record.recording import decode_recording, encode_recording
from tests.unit.cli.served import always, served_agent, slackwater
from tests.unit.record.ticks import run


def test_what_is_written_can_be_replayed() -> None:
    kept = encode_recording(run([Gap("no usage"), 400, 0, 0]))
    with served_agent(always(kept)) as server:
        done = slackwater("record", "--agent", server.address)
        assert server.asked == ["/v1/ticks"]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.encode() == kept
    assert run_replay(decode_recording(kept), POLICIES, as_recorded).different == 0


def test_an_agent_without_a_tick_is_one_sentence() -> None:
    with served_agent(always({"error": "no tick yet"}, 503)) as server:
        done = slackwater("record", "--agent", server.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"slackwater: {server.address} answers 503 to /v1/ticks: no tick yet\n"


def test_no_agent_is_one_sentence(tmp_path: Path) -> None:
    done = slackwater("record", "--state", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"no agent answers at {tmp_path}/agent.sock: No such file or directory" in done.stderr
