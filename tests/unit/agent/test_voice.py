"""What is told at once, what is not told again, and what is not remembered."""

import pytest

from slackwater.agent.voice import Voice
from slackwater.model.decision import Remark
from slackwater.model.tick_report import PolicyAction, PolicyReport, TickReport
from slackwater.model.units import Micros
from slackwater.record.journal import Entry

AT = Micros(7)


class Listener:
    def __init__(self) -> None:
        self.lines: list[Entry] = []
        self.voice = Voice(self.lines.append)

    def remark(self, *remarks: Remark, policy: str = "quota_burst") -> None:
        story = TickReport(
            (PolicyReport(policy, PolicyAction.ACTED, "nothing to do", {}, remarks=remarks),)
        )
        self.voice.tick(AT, (), story)

    def course(self, course: PolicyAction, reason: str) -> None:
        self.voice.tick(AT, (), TickReport((PolicyReport("share", course, reason, {}),)))

    def effect(self, result: str, after: str = "500m") -> None:
        self.voice.effect(Entry(3, AT, "quota of pod1", "", after, "", result))

    def said(self) -> list[tuple[str, str]]:
        return [(line.what, line.because or line.result) for line in self.lines]


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.mark.parametrize(
    ("results", "told"),
    [
        (["applied", "applied"], 2),
        (["refused: EINVAL", "refused: EINVAL"], 1),
        (["refused: EINVAL", "refused: EBUSY"], 2),
        (["refused: EINVAL", "applied", "refused: EINVAL"], 3),
        (["unsupported: EROFS", "unsupported: EROFS"], 1),
        (["planned", "planned"], 1),
        (["vanished", "vanished"], 2),  # another group each time: an id is never used twice
        (["refused: EINVAL", "vanished", "refused: EINVAL"], 3),
    ],
)
def test_effects(listener: Listener, results: list[str], told: int) -> None:
    for result in results:
        listener.effect(result)
    assert len(listener.lines) == told


def test_a_dry_run_says_another_value_again(listener: Listener) -> None:
    for after in ("500m", "500m", "400m"):
        listener.effect("planned", after)
    assert [line.after for line in listener.lines] == ["500m", "400m"]


def test_remarks_are_told_when_they_begin_change_and_end(listener: Listener) -> None:
    first, second = Remark("default/a", "bad"), Remark("default/b", "worse")
    for remarks in ((first,), (first, second), (first, Remark("default/b", "other")), (first,), ()):
        listener.remark(*remarks)
        listener.remark(*remarks)
    assert listener.said() == [
        ("default/a: quota_burst", "bad"),
        ("default/b: quota_burst", "worse"),
        ("default/b: quota_burst", "other"),
        ("default/b: quota_burst", "all is well again"),
        ("default/a: quota_burst", "all is well again"),
    ]


def test_remarks_of_two_policies_on_one_pod_are_two(listener: Listener) -> None:
    remark = Remark("default/a", "bad")
    told = [
        PolicyReport(name, PolicyAction.ACTED, "", {}, remarks=(remark,)) for name in ("one", "two")
    ]
    listener.voice.tick(AT, (), TickReport(tuple(told)))
    assert [what for what, _ in listener.said()] == ["default/a: one", "default/a: two"]


def test_the_course_of_a_policy(listener: Listener) -> None:
    listener.course(PolicyAction.ACTED, "as usual")
    listener.course(PolicyAction.HELD, "no samples")
    listener.course(PolicyAction.HELD, "no samples")
    listener.course(PolicyAction.RELEASED, "no samples; let go")
    listener.course(PolicyAction.ACTED, "as usual")
    assert listener.said() == [
        ("share", "held: no samples"),
        ("share", "released: no samples; let go"),
        ("share", "all is well again"),
    ]


def test_pods_that_come_and_go_leave_nothing_behind(listener: Listener) -> None:
    for number in range(100):
        what = f"quota of pod{number}"
        listener.voice.effect(Entry(1, AT, what, result="refused: EINVAL"))
        listener.voice.effect(Entry(2, AT, what, result="vanished: the cgroup is gone"))
        listener.voice.effect(Entry(2, AT, f"weight of pod{number}", result="applied"))
        listener.remark(Remark(f"default/{number}", "bad"))
    listener.remark()
    assert listener.voice._told == {}
    assert len(listener.lines) == 500
