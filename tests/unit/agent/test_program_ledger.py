"""What is wrong with the ledger has readers: log, /readyz, metrics, events, the report."""

import json
from pathlib import Path

import msgspec

from slackwater.agent.endpoint_server import Query, metrics, readyz
from slackwater.agent.program import Agent
from slackwater.agent.shared_state import view_of
from slackwater.execution.ledger import FILE, Ledger
from slackwater.model.units import Micros, MilliCpu
from slackwater.record.node_events import EventContext, SentState, due_events
from tests.unit.agent.test_program import Bench, at

BOOT = "boot"


def bench_with(folder: Path, text: str) -> tuple[Bench, Ledger]:
    folder.chmod(0o700)
    (folder / FILE).write_text(text)
    ledger = Ledger.open(str(folder), BOOT)
    assert isinstance(ledger, Ledger)
    bench = Bench()
    dependencies = msgspec.structs.replace(bench.agent._dependencies, ledger=ledger)
    bench.agent = Agent(dependencies, bench.lines.append)
    bench.agent.once(at(1))
    return bench, ledger


def test_a_problem_is_told_everywhere(tmp_path: Path) -> None:
    head = json.dumps({"ledger": 1, "boot": BOOT, "hierarchy": ""})
    bench, ledger = bench_with(tmp_path, f"{head}\n{head}\n" + '{"from":"another version"}\n')
    [problem] = ledger.problems
    assert bench.told("ledger") == [problem]
    query = Query(bench.shared, at(1))
    assert json.loads(readyz(query).body)["problems"] == [problem]
    assert b"slackwater_ledger_problems 1" in metrics(query).body
    context = EventContext("here", at(1), MilliCpu(1), lambda _key: "")
    events, _ = due_events(view_of(bench.shared, at(1)), SentState(), context)
    assert [(each.reason, each.message) for each in events if each.reason == "LedgerProblem"] == [
        ("LedgerProblem", problem)
    ]
    ledger.close()


def test_a_release_does_not_say_that_all_is_back_where_it_cannot_know(tmp_path: Path) -> None:
    head = json.dumps({"ledger": 9, "boot": BOOT, "hierarchy": ""})
    bench, ledger = bench_with(tmp_path, f"{head}\n")
    done = bench.agent.release(at(2), "released at exit")
    assert done.left == 1
    assert "newer version" in done.entries[-1].because
    ledger.close()


def test_a_good_ledger_is_silent(tmp_path: Path) -> None:
    bench, ledger = bench_with(tmp_path, "")
    assert bench.told("ledger") == []
    assert bench.agent.release(Micros(2), "x").left == 0
    ledger.close()
