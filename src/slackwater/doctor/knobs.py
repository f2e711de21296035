"""Which knobs work: each read in a cgroup of each level, or tried on a scratch cgroup.

A trial writes the knob, reads it back and removes the cgroup; nothing else is touched.
"""

from slackwater.doctor.doctor_report import KnobRow
from slackwater.doctor.features import SCRATCH as LEVEL
from slackwater.execution.cgroup_writer import CgroupWriter
from slackwater.execution.scratch import scratch_group
from slackwater.model.cgroup import CgroupMounts, CgroupRef, CgroupVersion, Driver, Level
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, KNOBS, Knob, KnobFile, KnobValue
from slackwater.model.knob_text import settle_in_file
from slackwater.model.plan import Change, Result
from slackwater.observation.detection.mounts import FOR_CHILDREN, listed_controllers

NOWHERE = "none"


def inspect_knobs(
    writer: CgroupWriter, mounts: CgroupMounts, samples: dict[Level, CgroupRef], driver: Driver
) -> tuple[KnobRow, ...]:
    """One row for each knob and level that the tree has."""
    return tuple(
        _inspect_knob(writer, mounts, knob, samples[level], driver)
        for knob in KNOBS
        for level in Level
        if level in samples
    )


def list_unread_knobs(mounts: CgroupMounts) -> tuple[KnobRow, ...]:
    """One row for each knob if there is no kubelet tree."""
    return tuple(_unread_row(knob, mounts) for knob in KNOBS)


def describe_absence(knob: Knob, gap: Gap) -> str:
    return f"{gap.reason}: a vendor's kernel has it" if knob.vendor else gap.reason


def find_knob_file(knob: Knob, mounts: CgroupMounts) -> KnobFile | Gap:
    """The knob's file on this machine: on a hybrid host each controller has its own version."""
    match mounts.mount(knob.controller):
        case Gap() as gap:
            return gap
        case mount:
            return knob.file(mount.version)


def _unread_row(knob: Knob, mounts: CgroupMounts) -> KnobRow:
    match find_knob_file(knob, mounts):
        case Gap(reason):
            return KnobRow(knob.name, NOWHERE, None, False, reason)
        case file:
            note = "not looked at: there is no kubelet tree"
            return KnobRow(knob.name, NOWHERE, file.name, None, note)


def _inspect_knob(
    writer: CgroupWriter, mounts: CgroupMounts, knob: Knob, ref: CgroupRef, driver: Driver
) -> KnobRow:
    file = find_knob_file(knob, mounts)
    if isinstance(file, Gap):
        return KnobRow(knob.name, ref.level.value, None, False, file.reason)
    value = writer.read(ref, knob)
    if isinstance(value, Gap):
        return KnobRow(knob.name, ref.level.value, file.name, False, describe_absence(knob, value))
    owned = driver is Driver.SYSTEMD and file.unit_property
    note = f"there, as systemd's {file.unit_property}" if owned else "there"
    return KnobRow(knob.name, ref.level.value, file.name, None, f"{note}, not tried")


def probe_values(first_cpu: int) -> tuple[tuple[Knob, KnobValue], ...]:
    """Each knob with its trial value. Burst needs a quota, which is before it in the table; a knob
    that disturbs another, as idle locks the weight, comes last."""
    in_order = sorted(KNOBS, key=lambda knob: knob.disturbs is not None)
    return tuple(
        (knob, CpuSet.of([first_cpu]) if knob is CPUS else knob.trial) for knob in in_order
    )


def probe_knobs(
    mounts: CgroupMounts, writer: CgroupWriter, first_cpu: int
) -> tuple[KnobRow, ...] | Gap:
    """One row for each knob, or a Gap if no scratch cgroup can be made."""
    with scratch_group(mounts) as ref:
        if isinstance(ref, Gap):
            return ref
        rows = {
            knob: _probe_knob(mounts, writer, ref, knob, value)
            for knob, value in probe_values(first_cpu)
        }
        return tuple(rows[knob] for knob in KNOBS)


def _reaches_children(mounts: CgroupMounts, knob: Knob) -> bool:
    """On v2 a group has only the controllers that its parent enables; on v1 all of them."""
    mount = mounts.mount(knob.controller)
    if isinstance(mount, Gap) or mount.version is CgroupVersion.V1:
        return True
    return knob.controller in listed_controllers(mount.directory, FOR_CHILDREN)


def _probe_knob(
    mounts: CgroupMounts, writer: CgroupWriter, ref: CgroupRef, knob: Knob, value: KnobValue
) -> KnobRow:
    file = find_knob_file(knob, mounts)
    if isinstance(file, Gap):
        return KnobRow(knob.name, LEVEL, None, False, file.reason)
    before = writer.read(ref, knob)
    if isinstance(before, Gap) and not _reaches_children(mounts, knob):
        note = f"{knob.controller.value} is not enabled in the root's {FOR_CHILDREN}"
        return KnobRow(knob.name, LEVEL, file.name, None, note)
    if isinstance(before, Gap):
        return KnobRow(knob.name, LEVEL, file.name, False, describe_absence(knob, before))
    outcome = writer.write(Change(ref, knob, before, value))
    after = writer.read(ref, knob)
    if outcome.result is not Result.APPLIED:
        note = f"{outcome.result.value}: {outcome.detail}"
        return KnobRow(knob.name, LEVEL, file.name, False, note)
    if after != settle_in_file(knob, value):
        note = f"wrote {value}, and {after} stands there"
        return KnobRow(knob.name, LEVEL, file.name, False, note)
    return KnobRow(knob.name, LEVEL, file.name, True, "written and read back")
