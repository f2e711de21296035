"""Every sample output of README and docs is what its command prints now."""

import pytest

from tools.samples import ROOT, Sample, difference, pages, printed, samples_in

SAMPLES = [
    sample for page in pages() for sample in samples_in(page, (ROOT / page).read_text("utf-8"))
]


def test_there_are_samples() -> None:
    assert {str(each.page) for each in SAMPLES} > {"README.md", "docs/reference/explain.md"}


@pytest.mark.long
@pytest.mark.parametrize("sample", SAMPLES, ids=Sample.place)
def test_a_sample_is_what_the_command_prints(sample: Sample) -> None:
    """Else: .venv/bin/python -m tools.samples."""
    assert difference(sample, printed(sample)) == ""
