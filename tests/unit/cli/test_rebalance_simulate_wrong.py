"""`slackwater rebalance simulate`: one sentence for each mistake."""

from pathlib import Path

import pytest

from tests.unit.cli.simulated_days import run, settle_in, told


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settle_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pods", "1"], "--pods is 1, but must be a whole number, 2 to 1000"),
        (["--pods", "many"], "--pods is 'many', but must be a whole number, 2 to 1000"),
        (["--partitions", "0"], "--partitions is 0, but must be a whole number, 1 to 10000"),
        (["--skew", "nan"], "--skew is 'nan', but must be a number, 0 to 3"),
        (["--hours", "0.5"], "--hours is '0.5', but must be a number, 1 to 168"),
        (["--seed", "-1"], "--seed is -1, but must be a whole number, 0 to 9223372036854775807"),
        (["--request", "0"], "--request is '0', but must be a number, 0.001 to 10000"),
        (["--hpa-target", "0"], "--hpa-target is '0', but must be a number, 1 % to 1000 %"),
        (["--stickiness", "1.1"], "--stickiness is '1.1', but must be a number, 0 to 1"),
        (["--step", "300"], ("--step is '300', but must be a duration such as 500ms, 1s or 1m30s, "
                            "10s to 24h")),
        (["--tolerance", "0.9"], "--tolerance is '0.9', but must be a number, at least 1"),
        (["--top-k", "0"], "--top-k is 0, but must be a whole number, at least 1"),
        (["--hpa-target", "60", "--hpa-average-value", "1"],
         "--hpa-target and --hpa-average-value are both said, but an HPA has one target"),
        (["day.csv", "--pods", "9"], "--pods is of a generated day, but there is a recording"),
        (["day.csv", "--seed", "0"], "--seed is of a generated day, but there is a recording"),
        (["--top-k", "99999999999999999999999"], (
            "--top-k is '99999999999999999999999', but must be a whole number, 1 to "
            "9223372036854775807")),
        (["--hours", "168", "--step", "10s"], (
            "a generated day is 60480 steps of 10 s, but must be at most 20000: choose a longer "
            "--step")),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"slackwater: {sentence}\n"


def test_all_wrong_settings_are_told_at_once() -> None:
    """As by `plan` and `run`."""
    words = ["--pods", "1", "--stickiness", "2", "--top-k", "0", "--tolerance", "x"]
    done = run(*words, SLACKWATER_REBALANCE_SIMULATE_STEP="5")
    assert (done.exit_code, done.stdout) == (2, "")
    assert [line.partition(" is ")[0] for line in done.stderr.splitlines()] == [
        "slackwater: --pods",
        "slackwater: --stickiness",
        "slackwater: SLACKWATER_REBALANCE_SIMULATE_STEP",
        "slackwater: --top-k",
        "slackwater: --tolerance",
    ]


def test_all_that_is_of_a_generated_day_is_told_at_once() -> None:
    done = run("day.csv", "--pods", "9", "--seed", "1")
    assert done.exit_code == 2
    assert done.stderr == (
        "slackwater: --pods is of a generated day, but there is a recording\n"
        "slackwater: --seed is of a generated day, but there is a recording\n"
    )


def test_a_variable_is_blamed_by_its_own_name() -> None:
    done = run(SLACKWATER_REBALANCE_SIMULATE_PODS="x")
    assert done.exit_code == 2
    assert done.stderr == (
        "slackwater: SLACKWATER_REBALANCE_SIMULATE_PODS is 'x', but must be a whole number, 2 to "
        "1000\n"
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "bad.csv line 1 is missing, but must be a header with time, pod, cores and"),
        (
            b"time,pod,cores\n0,a,1\n",
            (
                "bad.csv line 2, request, is missing, but must be a number of cores, above 0 "
                "and up to 10000, or said by --request for all\n"
            ),
        ),
        (
            b"time,pod,cores,request\n0,a,x,1\n",
            "bad.csv line 2, cores, is 'x', but must be a number of cores, 0 to 10000\n",
        ),
        (
            b"time,pod,cores\n0,a\n",
            "bad.csv line 2, cores, is missing, but must be a number of cores, 0 to 10000, or ",
        ),
        (b"\xff\xfe", "bad.csv is no UTF-8 at byte 0, but must be UTF-8\n"),
        (b"{}", "bad.csv: data is missing, but must be there, as in an answer of"),
    ],
)
def test_a_bad_recording_is_one_sentence(data: bytes, sentence: str) -> None:
    Path("bad.csv").write_bytes(data)
    done = run("bad.csv")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"slackwater: {sentence}")
    assert done.stderr.count("\n") == 1


def test_two_samples_three_years_apart_are_two_steps() -> None:
    """Long ones; but nobody can say that this is a mistake."""
    text = "time,pod,cores,request\n0,a,1,1\n99999999,a,1,1\n"
    assert told("-", text=text)["day"]["steps"] == 2


def test_too_many_steps_are_refused_before_they_are_lived_through() -> None:
    rows = "".join(f"{at},a,1,1\n" for at in (0, 60, 120, 99_999_999))
    done = run("-", text="time,pod,cores,request\n" + rows)
    assert done.exit_code == 2
    assert done.stderr == (
        "slackwater: standard input is 333334 steps of 300 s, but must be at most 20000: choose a "
        "longer --step\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gone.csv"], "gone.csv cannot be read: No such file or directory"),
        (["."], ". cannot be read: Is a directory"),
        (["day.csv", "--svg", "no/where.svg"], ("no/where.svg cannot be written: No such file or "
                                               "directory")),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"slackwater: {sentence}\n"


def test_an_improvement_that_cannot_be_reached_is_warned_about() -> None:
    done = run("day.csv", "--minimum-improvement", "70")
    assert done.exit_code == 0
    assert "slackwater: " in done.stderr
    assert "minimum" in done.stderr.lower()
