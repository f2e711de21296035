"""Which knobs are there: each one looked at in a group of each level. Writes nothing."""

from slackwater.doctor.report import KnobRow
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.model.cgroup import CgroupMounts, CgroupRef, Driver, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import KNOBS, Knob, KnobFile

NOWHERE = "none"


def see_knobs(
    writer: CgroupWriter, mounts: CgroupMounts, samples: dict[Level, CgroupRef], driver: Driver
) -> tuple[KnobRow, ...]:
    """One row for each knob and level that the tree has."""
    return tuple(
        _seen(writer, mounts, knob, samples[level], driver)
        for knob in KNOBS
        for level in Level
        if level in samples
    )


def unseen_knobs(mounts: CgroupMounts) -> tuple[KnobRow, ...]:
    """One row for each knob where there is no tree to look at."""
    return tuple(_unseen(knob, mounts) for knob in KNOBS)


def absence(knob: Knob, gap: Gap) -> str:
    return f"{gap.reason}: a vendor's kernel has it" if knob.vendor else gap.reason


def face(knob: Knob, mounts: CgroupMounts) -> KnobFile | Gap:
    """The knob's file on this machine: on a hybrid host each controller has its own version."""
    match mounts.mount(knob.controller):
        case Gap() as gap:
            return gap
        case mount:
            return knob.file(mount.version)


def _unseen(knob: Knob, mounts: CgroupMounts) -> KnobRow:
    match face(knob, mounts):
        case Gap(reason):
            return KnobRow(knob.name, NOWHERE, None, False, reason)
        case file:
            note = "not looked at: there is no kubelet tree"
            return KnobRow(knob.name, NOWHERE, file.name, None, note)


def _seen(
    writer: CgroupWriter, mounts: CgroupMounts, knob: Knob, ref: CgroupRef, driver: Driver
) -> KnobRow:
    file = face(knob, mounts)
    if isinstance(file, Gap):
        return KnobRow(knob.name, ref.level.value, None, False, file.reason)
    value = writer.read(ref, knob)
    if isinstance(value, Gap):
        return KnobRow(knob.name, ref.level.value, file.name, False, absence(knob, value))
    owned = driver is Driver.SYSTEMD and file.unit_property
    note = f"there, as systemd's {file.unit_property}" if owned else "there"
    return KnobRow(knob.name, ref.level.value, file.name, None, f"{note}, not tried")
