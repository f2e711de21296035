"""Any tick at all, for laws about recordings."""

from hypothesis import strategies as st

from slackwater.model.cgroup import (
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuPressure,
    CpuTimes,
    Level,
    PressureLine,
    Tier,
)
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import (
    Because,
    Command,
    CommandKind,
    Contribution,
    Event,
    Grant,
    Note,
    NoteKind,
    PolicyAction,
    PolicyReport,
    Remark,
    RuleReport,
    RuleState,
    TickReport,
    Verb,
    Yielded,
)
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.knob import KNOBS, KnobKey
from slackwater.model.metric import Sample
from slackwater.model.plan import (
    Change,
    CommandOutcome,
    CommandProgress,
    CommandState,
    Outcome,
    Result,
)
from slackwater.model.snapshot import Freshness, Held, NodeSnapshot, Rate, WritePrecision
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, Ratio
from slackwater.model.weight import WeightFormula
from slackwater.model.workload import BurstRequest, MemoryRatios, Workload, WorkloadContainer

words = st.sampled_from(("", "a", "kubepods/besteffort", '\u00fc\n"')) | st.text(max_size=3)
micros = st.integers(0, 2**62).map(Micros)
ids = st.integers(1, 2**64 - 1)
gaps = st.one_of(st.just(NOT_ASKED), st.builds(Gap, words))
amounts = st.integers(0, 10**6)
limits = st.one_of(amounts, st.just(UNLIMITED))
refs = st.builds(CgroupRef, words, ids, st.sampled_from(Level), st.sampled_from(Tier), words)
bandwidths = st.builds(Bandwidth, limits, st.integers(1, 10**6).map(Micros))
cpu_sets = st.builds(CpuSet.of, st.sets(st.integers(0, 400), max_size=5))
granted = limits | st.booleans() | cpu_sets
values = st.one_of(
    bandwidths, cpu_sets, st.just(UNLIMITED), st.booleans(), st.integers(-1, 2**63 - 1)
)
lines_of_pressure = st.builds(PressureLine, amounts, amounts, amounts, micros)
pressures = st.builds(CpuPressure, lines_of_pressure, st.none() | lines_of_pressure)
readings = st.builds(
    CgroupReading,
    refs,
    micros,
    gaps | st.builds(CpuTimes, micros, amounts, amounts, micros, amounts, micros),
    gaps | bandwidths,
    gaps | micros,
    gaps | amounts,
    gaps | st.booleans(),
    gaps | cpu_sets,
    gaps | pressures,
    st.dictionaries(words, gaps | limits, max_size=2),
)
extended = st.dictionaries(words, gaps | amounts, max_size=2)
containers = st.builds(
    WorkloadContainer, words, refs | gaps, amounts, limits, amounts, limits, extended, extended
)
workloads = st.builds(
    Workload,
    words,
    words,
    words,
    st.sampled_from(Tier),
    refs | gaps,
    amounts,
    st.integers(-(10**9), 10**9),
    st.lists(containers, max_size=2).map(tuple),
    limits,
    st.integers(-1, 2) | gaps,
    st.none() | gaps | st.builds(BurstRequest, st.none() | micros, words),
    st.none() | gaps | st.builds(MemoryRatios, amounts, amounts, amounts),
    extended,
    extended,
    st.dictionaries(words, words, max_size=2),
    st.none() | amounts,
    st.booleans(),
    words,
    words,
    st.dictionaries(words, amounts, max_size=2),
)
becauses = st.builds(Because, words, words, words)
#: JSON has no infinity: what is measured is finite, else it is a Gap.
numbers = st.floats(allow_nan=False, allow_infinity=False)
commands = st.builds(
    Command,
    words,
    st.sampled_from(CommandKind),
    words,
    becauses,
    words,
    words,
    words,
    st.none() | amounts,
    st.dictionaries(words, numbers, max_size=2),
)
progresses = st.builds(
    CommandProgress, commands, st.sampled_from(CommandState), micros, words, micros
)
labelled = st.builds(Sample, numbers, st.dictionaries(words, words, max_size=2))
snapshots = st.builds(
    NodeSnapshot,
    tick=amounts,
    at=micros,
    elapsed=micros,
    allocatable=amounts | gaps,
    usage=amounts | gaps,
    kubepods=refs,
    tiers=st.dictionaries(st.sampled_from(Tier), refs, max_size=3),
    workloads=st.lists(workloads, max_size=1).map(tuple),
    readings=st.dictionaries(ids, readings, max_size=2),
    rates=st.dictionaries(ids, st.builds(Rate, amounts, amounts), max_size=2),
    pressure=gaps | pressures,
    held=st.lists(st.builds(Held, refs, words, values, values, micros), max_size=1).map(tuple),
    off=st.frozensets(st.builds(KnobKey, ids, words), max_size=3),
    early=st.booleans(),
    precision=st.none() | st.builds(WritePrecision, amounts, st.frozensets(words)),
    version=st.none() | st.sampled_from(CgroupVersion),
    pod_formula=st.sampled_from(WeightFormula),
    container_formula=st.sampled_from(WeightFormula),
    sources=st.dictionaries(words, st.builds(Freshness, micros, words), max_size=2),
    metrics=st.dictionaries(words, gaps | st.lists(labelled, max_size=2).map(tuple), max_size=2),
    in_flight=st.lists(progresses, max_size=1).map(tuple),
    wall_time=amounts,
)
rules = st.builds(
    RuleReport,
    words,
    words,
    words,
    words,
    st.sampled_from(RuleState),
    numbers,
    st.none() | numbers,
    amounts,
    amounts,
    amounts,
    amounts,
    st.booleans(),
    st.none() | micros,
    st.none() | micros,
    words,
    words,
)
shares = granted | st.builds(Ratio, amounts, st.integers(1, 500))
steps = st.builds(Contribution, words, st.sampled_from(Verb), shares, granted, becauses)
stories = st.builds(
    TickReport,
    st.lists(
        st.builds(
            PolicyReport,
            words,
            st.sampled_from(PolicyAction),
            words,
            st.dictionaries(words, amounts, max_size=3),
            st.none() | micros,
            st.lists(st.builds(Event, words, words, amounts), max_size=1).map(tuple),
            st.lists(st.builds(Remark, words, words), max_size=1).map(tuple),
            st.lists(rules, max_size=1).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    st.lists(
        st.builds(
            Grant,
            refs,
            words,
            granted,
            st.lists(steps, max_size=2).map(tuple),
            st.none() | words,
            st.none() | words,
        ),
        max_size=2,
    ).map(tuple),
    st.lists(st.builds(Note, refs, words, st.sampled_from(NoteKind), words), max_size=1).map(tuple),
    st.lists(st.builds(Yielded, refs, words, micros), max_size=1).map(tuple),
    st.lists(commands, max_size=1).map(tuple),
)
changes = st.builds(Change, refs, st.sampled_from(KNOBS), values, values)
command_outcomes = st.builds(
    CommandOutcome, commands, st.sampled_from(CommandState), micros, words, st.booleans()
)
outcomes = st.builds(Outcome, changes, st.sampled_from(Result), words, micros)
