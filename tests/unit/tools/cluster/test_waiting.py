"""Waiting: the first true answer, the last one where none comes, and no looking without a pause."""

import time

import pytest

from tools.cluster.processes import POLL_SECONDS, ClusterError, rest_after, wait_for


def test_the_first_answer_that_is_true_is_given() -> None:
    answers = iter([None, "", "there", "later"])
    assert wait_for("it", lambda: next(answers), 10) == "there"


def test_without_one_the_last_is_told() -> None:
    with pytest.raises(ClusterError, match=r"0 s were not enough for it; last seen: \[\]"):
        wait_for("it", list, 0)


def test_the_look_after_the_last_pause_counts() -> None:
    began = time.monotonic()
    assert wait_for("it", lambda: time.monotonic() > began + POLL_SECONDS / 2, 0.01) is True


@pytest.mark.parametrize(
    ("took", "rest"), [(0.0, POLL_SECONDS), (0.01, POLL_SECONDS), (0.2, 0.4), (30.0, 2.0)]
)
def test_a_look_that_takes_long_is_not_repeated_at_once(took: float, rest: float) -> None:
    assert rest_after(took) == rest
