"""The Node's extended resources: what is shown, what is ours, and the patch that changes it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.node_offer import (
    ANNOTATION,
    OFFERABLE,
    NodeOffer,
    SeenOffer,
    offer_patch,
    read_seen_offer,
)

CPU, MEMORY = "gocrane.io/cpu", "gocrane.io/memory"


def node(capacity: dict[str, str], allocatable: dict[str, str], note: str = "") -> dict[str, Any]:
    annotations = {ANNOTATION: note} if note else {}
    return {
        "metadata": {"name": "here", "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }


def test_what_a_node_shows() -> None:
    amounts = {CPU: "3", "cpu": "4", "nvidia.com/gpu": "1"}
    seen = read_seen_offer(node(amounts, amounts, CPU))
    assert seen == SeenOffer({CPU: 3}, frozenset({CPU}))
    assert not seen.differs(NodeOffer({CPU: 3}))


def test_capacity_and_allocatable_that_differ_have_to_be_written() -> None:
    """The kubelet copies the first to the second, later."""
    seen = read_seen_offer(node({CPU: "0"}, {CPU: "3"}, CPU))
    assert seen.differs(NodeOffer({CPU: 3}))
    assert seen.differs(NodeOffer({CPU: 0}))


def test_what_another_program_set_is_not_ours_until_it_is_wanted() -> None:
    seen = read_seen_offer(node({CPU: "3"}, {CPU: "3"}))
    assert not seen.differs(NodeOffer())
    assert seen.differs(NodeOffer({CPU: 3}))
    assert seen.of_ours() == NodeOffer()


def test_ours_that_nobody_wants_has_to_go() -> None:
    seen = read_seen_offer(node({CPU: "3"}, {CPU: "3"}, f"{CPU},{MEMORY}"))
    assert seen.differs(NodeOffer())
    patch = offer_patch(NodeOffer(), seen.owned)
    assert patch["status"] == {
        "capacity": {CPU: None, MEMORY: None},
        "allocatable": {CPU: None, MEMORY: None},
    }
    assert patch["metadata"] == {"annotations": {ANNOTATION: None}}


def test_an_annotation_names_nothing_but_what_may_be_offered() -> None:
    seen = read_seen_offer(node({}, {}, "cpu,memory,pods,gocrane.io/cpu"))
    assert seen.owned == frozenset({CPU})


def test_a_node_that_cannot_be_read_shows_nothing() -> None:
    assert read_seen_offer({"metadata": {"annotations": 3}}) == SeenOffer()


#: CPUs are read in milliCPU of 64 bits.
OFFERS = st.dictionaries(st.sampled_from(OFFERABLE), st.integers(0, 2**50)).map(NodeOffer)


@given(OFFERS, OFFERS)
def test_a_patch_brings_a_node_to_what_is_wanted(before: NodeOffer, wanted: NodeOffer) -> None:
    shown = {name: str(amount) for name, amount in before.amounts.items()}
    seen = read_seen_offer(node(shown, shown, ",".join(before.amounts)))
    patch: dict[str, Any] = offer_patch(wanted, seen.owned)
    amounts = {**shown, **patch["status"]["capacity"]}
    kept = {name: text for name, text in amounts.items() if text is not None}
    note = patch["metadata"]["annotations"][ANNOTATION] or ""
    after = read_seen_offer(node(kept, kept, note))
    assert not after.differs(wanted)
    assert set(patch["status"]["capacity"]) <= set(OFFERABLE)
