"""Features judged by knobs."""

import pytest

from slackwater.doctor.features import FEATURES, judge
from slackwater.model.knob import KNOBS


def row(name: str, **works: bool | None) -> tuple[bool | None, str]:
    named = {knob.replace("_", "-"): state for knob, state in works.items()}
    found = next(row for row in judge(named) if row.feature == name)
    return found.possible, found.because


@pytest.mark.parametrize(
    ("name", "works", "possible", "because"),
    [
        ("quota_burst", {"burst": True}, True, "burst works: "),
        ("quota_burst", {"burst": None}, None, "burst was not tried: run with --probe"),
        ("quota_burst", {"burst": False}, False, "burst does not work here"),
        ("quota_burst", {}, False, "burst does not work here"),
        ("elastic_limit", {"quota": True, "weight": True}, True, "quota and weight work: "),
        ("elastic_limit", {"quota": True, "weight": None}, None, "quota and weight were not tried"),
        ("elastic_limit", {"quota": True, "weight": False}, False, "weight does not work here"),
        ("elastic_limit", {}, False, "quota and weight do not work here"),
        ("qos_level", {"cpu_qos_level": True}, True, "cpu-qos-level works: "),
        ("qos_level", {"cpu_qos_level": False, "idle": True}, True, "idle works: "),
        ("qos_level", {"idle": False, "weight": True}, True, "weight works: "),
        ("qos_level", {"idle": None, "weight": True}, True, "weight works: "),
        ("qos_level", {"idle": None, "weight": False}, None, "idle was not tried"),
        (
            "batch_resources",
            {},
            False,
            "weight, quota and memory-max do not work here",
        ),
    ],
)
def test_rows(
    name: str, works: dict[str, bool | None], possible: bool | None, because: str
) -> None:
    found = row(name, **works)
    assert found[0] is possible
    assert found[1].startswith(because)


def test_every_need_is_a_knob_or_psi() -> None:
    known = {knob.name for knob in KNOBS} | {"psi"}
    needs = {knob for f in FEATURES for alternative in f.alternatives for knob in alternative}
    assert needs <= known
