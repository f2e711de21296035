"""NRI's messages as containerd sends them, and our answers."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from slackwater.nri import messages, protobuf
from slackwater.nri.messages import Configuration, ContainerRequest, CpuRequest, NriEvent, Sandbox
from slackwater.nri.protobuf import WireError
from tests.unit.nri import runtime_side
from tests.unit.nri.runtime_side import find_path

TEXTS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
SANDBOXES = st.builds(Sandbox, st.text(), st.text(), st.text(), st.text(), TEXTS, TEXTS, st.text())
SET = st.one_of(st.none(), st.integers(1, 2**40))
CPUS = st.builds(
    CpuRequest, SET, st.one_of(st.none(), st.just(-1), st.integers(1, 2**40)), SET, st.text()
)
REQUESTS = st.builds(ContainerRequest, SANDBOXES, st.text(), st.text(), CPUS)


@given(REQUESTS)
def test_a_creation(request: ContainerRequest) -> None:
    assert messages.parse_creation(runtime_side.encode_creation(request)) == request


@given(REQUESTS)
def test_an_update_keeps_all_of_its_resources(request: ContainerRequest) -> None:
    resources = runtime_side.encode_resources(request.cpu)
    asked = msgspec.structs.replace(request, resources=resources)
    assert messages.parse_update(runtime_side.encode_update(asked)) == asked


@given(REQUESTS, st.one_of(st.just(-1), st.integers(1000, 2**40)))
def test_the_answer_to_an_update_is_the_request_with_another_quota(
    request: ContainerRequest, quota: int
) -> None:
    resources = runtime_side.encode_resources(request.cpu)
    asked = msgspec.structs.replace(request, resources=resources)
    answer = messages.encode_container_update(asked, quota)
    update = find_path(answer, 1)
    assert update is not None
    assert protobuf.find_text(update, 1) == request.id
    said = find_path(update, 2, 1)
    assert said is not None
    expected = runtime_side.encode_resources(msgspec.structs.replace(request.cpu, quota=quota))
    assert sorted(_flat(said)) == sorted(_flat(expected))


def _flat(resources: bytes) -> list[bytes]:
    """Fields in any order: those of the CPU one by one."""
    cpu = find_path(resources, 2) or b""
    others = [each.raw for each in protobuf.fields_of(resources) if each.number != 2]
    return [*others, *(b"cpu" + each.raw for each in protobuf.fields_of(cpu))]


def test_an_update_of_no_cpu_gets_one() -> None:
    answer = messages.encode_container_update(ContainerRequest(id="a"), 1000)
    inner = find_path(answer, 1, 2, 1, 2, 2)
    assert inner is not None
    assert protobuf.find_signed(inner, 1) == 1000


def test_an_adjustment_is_of_the_quota_alone() -> None:
    cpu = find_path(messages.encode_adjustment(83_334), 1, 6, 2, 2)
    assert cpu is not None
    assert [each.number for each in protobuf.fields_of(cpu)] == [2]
    assert find_path(cpu, 2) == protobuf.number_field(1, 83_334)


def test_zeros_are_not_said() -> None:
    zeros = runtime_side.encode_creation(ContainerRequest())
    assert messages.parse_creation(zeros).cpu == CpuRequest()


def test_the_configuration_and_the_subscription() -> None:
    said = runtime_side.encode_configuration("containerd", "2.2.9", 2000)
    assert messages.parse_configuration(said) == Configuration("containerd", "2.2.9", 2000)
    events = (NriEvent.CREATE_CONTAINER, NriEvent.UPDATE_CONTAINER)
    assert protobuf.find_number(messages.encode_subscription(events), 2) == 0b10001000


def test_a_list_in_parts_is_acknowledged_part_by_part() -> None:
    assert messages.answer_synchronize(b"") == b""
    assert messages.answer_synchronize(protobuf.number_field(3, 1)) == protobuf.number_field(2, 1)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    for parse in (
        messages.parse_creation,
        messages.parse_update,
        messages.parse_configuration,
        messages.answer_synchronize,
    ):
        try:
            parse(data)
        except WireError as error:
            assert str(error)
