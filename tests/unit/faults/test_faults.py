"""Every call to the system fails once, in every way that systems have: nothing is lost or left.

For each scenario and each place that it reaches: the work with the fault ends as its contract says
(an unexpected exception is a failure), and what it could not do is told, or makes no difference.
Then the same work without a fault achieves what it always does, and a release puts everything back.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.faults.call_sites import Site, all_sites
from tests.unit.faults.injection import Injection
from tests.unit.faults.scenarios import SCENARIOS, Done, Work

pytestmark = pytest.mark.long

ERRORS = (
    errno.EIO,
    errno.EROFS,
    errno.ENOSPC,
    errno.EMFILE,
    errno.EBUSY,
    errno.EINTR,
    errno.EPERM,
    errno.ETIMEDOUT,
)
#: Reached by no scenario, and why.
ELSEWHERE = {
    "observation/plugins/plugin_process.py": "in the plug-in's own process, which may only die: "
    "tests/unit/observation/plugins",
    "execution/eviction_by_signal.py os.kill": "called later, at another place, which the "
    "scenario 'signals' reaches",
}


@contextmanager
def prepared(name: str) -> Iterator[tuple[Work, Injection]]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        work = SCENARIOS[name](Path(folder), patch)
        injection = Injection()
        with injection.installed():
            yield work, injection


def normal(name: str) -> tuple[Done, frozenset[Site]]:
    """Twice: some calls are made only where a run before has left something."""
    with prepared(name) as (work, injection):
        work()
        return work(), frozenset(injection.reached)


def is_elsewhere(site: Site) -> bool:
    return any(f"{site.file} {site.call}".startswith(each) for each in ELSEWHERE)


def test_every_place_is_reached() -> None:
    reached = frozenset[Site]().union(*(normal(name)[1] for name in SCENARIOS))
    left = sorted(site for site in all_sites() - reached if not is_elsewhere(site))
    assert left == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_is_told_and_leaves_nothing(name: str) -> None:
    wanted, sites = normal(name)
    # Of an agent's life one error a place, in turn: with all it takes a quarter of an hour.
    step = (
        len(ERRORS)
        if name.startswith("node") and not os.environ.get("SLACKWATER_EVERY_FAULT")
        else 1
    )
    for number, site in enumerate(sorted(sites)):
        for error in ERRORS[number % step :: step]:
            check(name, site, error, wanted)


def check(name: str, site: Site, error: int, wanted: Done) -> None:
    where = f"{site}: {os.strerror(error)}"
    with prepared(name) as (work, injection):
        with injection.failing(site, error):
            done = work()
            if not injection.hits:  # it needs what a run before has left
                done = work()
        assert injection.hits == 1, where
        is_told = os.strerror(error) in done.told
        if site.call.startswith("os.path."):  # it cannot say why, only that nothing is there
            is_told = done.told != wanted.told
        assert is_told or done.effect == wanted.effect, (where, done)
        assert work().effect == wanted.effect, where
