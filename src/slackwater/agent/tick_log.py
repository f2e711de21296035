"""What the agent logs of a tick."""

from collections.abc import Iterable

from slackwater.model.decision import PolicyAction, TickReport
from slackwater.model.snapshot import NodeSnapshot
from slackwater.record.journal import JournalEntry
from slackwater.runtime.change_log import ChangeLog


def log_tick(
    log: ChangeLog, snapshot: NodeSnapshot, entries: Iterable[JournalEntry], story: TickReport
) -> None:
    """Its effects; and how each policy went and what it remarked, when that changes."""
    for entry in entries:
        log.effect(entry)
    for line in story.told:
        why = f"{line.course.value}: {line.reason}" if line.course is not PolicyAction.ACTED else ""
        log.state(line.policy, why, snapshot.at)
    remarks: dict[str, list[str]] = {}
    for line in story.told:
        for each in line.remarks:
            remarks.setdefault(f"{each.about}: {line.policy}", []).append(each.text)
    log.states({about: "; ".join(texts) for about, texts in remarks.items()}, snapshot.at)
