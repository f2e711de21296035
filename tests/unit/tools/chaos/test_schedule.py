"""The schedule of the cluster's chaos: repeatable, and leaving nothing out."""

from itertools import islice

import pytest

from tools.chaos.schedule import Blow, Fault, Step, Target, Wish, steps, steps_within

ALL = {Blow(target, fault) for target in Target for fault in Fault}


def blows(listed: list[Step]) -> list[Blow]:
    return [blow for step in listed for blow in step.blows]


@pytest.mark.parametrize("seed", range(20))
def test_three_rounds_have_each_fault_of_each_program_once(seed: int) -> None:
    found: list[Blow] = []
    for step in steps(seed):
        found += step.blows
        if len(found) == len(ALL):
            break
    assert len(found) == len(ALL)
    assert set(found) == ALL


def test_a_seed_is_a_schedule() -> None:
    assert list(islice(steps(7), 50)) == list(islice(steps(7), 50))
    assert list(islice(steps(7), 50)) != list(islice(steps(8), 50))


def test_every_wish_changes_and_some_programs_fall_together() -> None:
    listed = list(islice(steps(1), 60))
    assert {step.flips for step in listed} == set(Wish)
    assert {len(step.blows) for step in listed} == {1, 2}
    assert {step.during for step in listed} == {True, False}


def test_nothing_is_changed_while_there_is_no_api_server() -> None:
    for step in islice(steps(2), 200):
        if step.during:
            assert Target.API_SERVER not in {blow.target for blow in step.blows}


def test_what_others_need_is_struck_and_mended_first() -> None:
    order = list(Target)
    for step in islice(steps(3), 200):
        places = [order.index(blow.target) for blow in step.blows]
        assert places == sorted(places)
        assert len(set(places)) == len(places)


@pytest.mark.parametrize(("seed", "seconds"), [(1, 0), (1, 30), (5, 30), (5, 600)])
def test_a_short_one_meets_every_program(seed: int, seconds: float) -> None:
    listed = list(steps_within(seed, seconds))
    assert {blow.target for blow in blows(listed)} == set(Target)
    lasts = [step.seconds + step.rest for step in listed]
    assert sum(lasts) >= seconds
    assert sum(lasts[:-1]) < seconds or len(blows(listed)) <= 2 * len(Target)


def test_the_words_of_a_step() -> None:
    both = (Blow(Target.KUBELET, Fault.PAUSE), Blow(Target.AGENT, Fault.KILL))
    step = Step(both, 2.5, 1.0, Wish.TAINT, during=True)
    assert step.words() == "pause kubelet and kill agent for 2.5 s, meanwhile taint changes"
    step = Step(both[:1], 2.5, 1.0, Wish.OFFER, during=False)
    assert step.words() == "pause kubelet for 2.5 s, before offer changes"
