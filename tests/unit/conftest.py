"""What every unit test may rely on, and what none may leave behind."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Machines are noisy: no property is about how long an example takes.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def signal_handlers_stay() -> Iterator[None]:
    """A handler left behind fails another test, in another file: here it fails its own."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    yield
    left = {number.name: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert left == {number.name: handler for number, handler in before.items()}
