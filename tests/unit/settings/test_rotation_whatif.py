"""The what-if's own settings: names that are not taken, defaults inside their bounds."""

import pytest

from slackwater.settings import rotation_whatif as own
from slackwater.settings.bound import Bound, Unit, check_text
from slackwater.settings.real import Real, check_real_text
from slackwater.settings.rotation_document import ENTRIES

every = pytest.mark.parametrize("told", own.ALL, ids=lambda told: told.name)


def spelled(told: own.Told) -> str:
    """The default as a person would write it."""
    if isinstance(told, Bound) and told.unit is Unit.DURATION:
        return told.shown(told.default)
    return f"{told.default:f}" if isinstance(told, Real) else str(told.default)


@every
def test_a_default_is_inside_its_bound(told: own.Told) -> None:
    text = spelled(told)
    if isinstance(told, Real):
        assert check_real_text(told, text, "here") == told.default
    else:
        assert check_text(told, text, "here") == told.default


@every
def test_prose_is_sentences(told: own.Told) -> None:
    assert told.prose[0].isupper()
    assert told.prose.endswith(".")


def test_flags_and_variables() -> None:
    assert own.flag_of(own.HPA_AVERAGE_VALUE) == "--hpa-average-value"
    assert own.variable_of(own.PODS) == "SLACKWATER_REBALANCE_SIMULATE_PODS"


def test_names_are_taken_once() -> None:
    flags = [own.flag_of(told) for told in own.ALL] + [entry.flag for entry in ENTRIES]
    assert len(set(flags)) == len(flags)
    names = [own.variable_of(told) for told in own.ALL] + [entry.variable for entry in ENTRIES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (own.PODS, "12"),
        (own.SKEW, "0.7"),
        (own.HPA_TARGET, "70 %"),
        (own.HPA_AVERAGE_VALUE, "none"),
        (own.STEP, "5m"),
    ],
)
def test_defaults_for_people(told: own.Told, shown: str) -> None:
    assert own.default_of(told) == shown
