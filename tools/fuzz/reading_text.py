"""The rows of the table for texts and bytes: kernel files, wire formats, annotations, flags."""

import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from slackwater.agent.recording_replay import replay
from slackwater.calibration.ratio_model import read_result
from slackwater.contract import node_report
from slackwater.contract.decoding import decode_struct, parse_bool
from slackwater.contract.document import parse_json
from slackwater.contract.koordinator.amplification import read_ratios, read_record
from slackwater.contract.koordinator.normalization import CpuBasicInfo, parse_ratio
from slackwater.contract.label_selector import parse_selector
from slackwater.contract.volcano.node import read_features
from slackwater.demo.processes import parse_entry
from slackwater.execution.systemd_wire import SystemdError, SystemdWire
from slackwater.http import endpoint, prometheus_api
from slackwater.http.connection import HttpResponse
from slackwater.http.prometheus_api import PrometheusError
from slackwater.kube.api_status import refusal
from slackwater.manager.node_template import read_node_template
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.cpus import CpuListError, CpuSet
from slackwater.model.knob import KNOBS, KnobKey
from slackwater.model.knob_text import decode
from slackwater.model.problem import InvalidError
from slackwater.model.unit_property import parse_properties
from slackwater.model.units import (
    DurationError,
    Micros,
    QuantityError,
    parse_bytes,
    parse_duration,
    parse_milli_cpu,
    parse_quantity,
)
from slackwater.nri import frames, messages, protobuf
from slackwater.observation import kernel_text
from slackwater.observation.detection import kubelet, mounts
from slackwater.observation.metrics import proc_text
from slackwater.observation.objects.documents import documents_in, one_document
from slackwater.observation.objects.folder_watch import parse_events
from slackwater.observation.probes.answers import TextLooks
from slackwater.observation.probes.text_format import parse_exposition
from slackwater.policies.catalog import POLICIES
from slackwater.rebalancer.last_rotation import decode_last_rotation
from slackwater.rebalancer.observed import Cores, WorkloadName
from slackwater.rebalancer.whatif.day_recording import read_recording
from slackwater.record.recording import RecordingError, decode_recording
from slackwater.record.timestamps import parse_timestamp
from slackwater.remote.exec_stream import read_end
from slackwater.runtime.http_exchange import AddressError, parse_listen_address
from slackwater.runtime.http_wire import RequestParser
from tools.fuzz import seeds
from tools.fuzz.mutation import Mutator
from tools.fuzz.running import Reader

_SOURCE = "a file"


def _data(
    name: str,
    call: Callable[[Any], object],
    *found: bytes,
    covers: tuple[str, ...] = (),
    contract: tuple[type[BaseException], ...] = (),
) -> Reader:
    return Reader(name, call, found, Mutator.data, covers, contract)


def _text(
    name: str,
    call: Callable[[Any], object],
    *found: str,
    covers: tuple[str, ...] = (),
    contract: tuple[type[BaseException], ...] = (),
) -> Reader:
    return Reader(name, call, found, Mutator.text, covers, contract)


_CPU_STAT = (
    b"usage_usec 12\nuser_usec 6\nsystem_usec 6\nnr_periods 3\nnr_throttled 1\nthrottled_usec 9\n"
)
_CPU_STAT_V1 = b"nr_periods 3\nnr_throttled 1\nthrottled_time 9000\n"
_PRESSURE = (
    b"some avg10=0.10 avg60=1.00 avg300=10.00 total=123\n"
    b"full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
)
_STAT = b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4\nintr 1 2\n"
_CPUINFO = (
    b"processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\n"
    b"CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
)
_MEMINFO = b"MemTotal:       32000000 kB\nMemFree:  1 kB\nMemAvailable:   1000000 kB\n"
_DISKS = (
    b"   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 0 0 0\n   8       1 sda1 1 2 3 4 5 6 7 8 9 10 11\n"
)
_NETWORK = b"Inter-|   Receive\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
_MOUNTS = (
    b"35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    b"36 24 0:31 / /a\\040b rw - ext4 /dev/sda rw\n"
)


def kernel_files() -> tuple[Reader, ...]:
    return (
        _data("kernel-number", partial(kernel_text.number, "n"), b"-12\n", b"92233720368547\n"),
        _data("kernel-flag", partial(kernel_text.flag, "f"), b"1\n"),
        _data("kernel-cpu-list", partial(kernel_text.cpu_list, "c"), b"0-3,8,10-11\n", b"\n"),
        _data("kernel-times-v1", _times_v1, _CPU_STAT_V1),
        _data("kernel-times-v2", kernel_text.times_v2, _CPU_STAT),
        _data("kernel-usage-v1", kernel_text.usage_v1, b"123456789\n"),
        _data("kernel-pressure", kernel_text.pressure, _PRESSURE),
        _data("kernel-ticks", kernel_text.ticks, _STAT),
        _data("kernel-processor", kernel_text.processor, _CPUINFO),
        _data("kernel-memory", partial(kernel_text.memory_total, "m"), _MEMINFO),
        _data("kernel-cache-mask", partial(kernel_text.cache_mask, "m"), b"fff\n"),
        _data("proc-loads", proc_text.loads, b"0.10 1.00 2.50 1/234 5678\n"),
        _data("proc-memory", proc_text.node_memory, _MEMINFO),
        _data("proc-disks", proc_text.disks, _DISKS),
        _data("proc-interfaces", proc_text.interfaces, _NETWORK),
        _data("proc-waited", proc_text.nanoseconds_waited, b"123 456 7\n"),
        _data("mountinfo", mounts.parse_mountinfo, _MOUNTS,
              covers=("observation.detection.mounts.parse_mountinfo",
                      "observation.detection.mounts.read_mount_table")),
        _data("inotify-events", parse_events,
              struct.pack("=iIII", 1, 0x100, 0, 16) + b"settings.yaml\0\0\0",
              covers=("observation.objects.folder_watch.parse_events",)),
        _data("kubelet-file", _kubelet_file, b"cgroupDriver: systemd\ncgroupRoot: /a # b\n",
              b"KUBELET_EXTRA_ARGS=--cgroup-driver=systemd"),
        _data("kubelet-arguments", _kubelet_arguments,
              b"kubelet\0--cgroup-driver\0systemd\0--cgroup-root=/a\0"),
        _text("knob", _knob, "max 100000\n", "0-3\n", "-1\n", "100\n", "1\n",
              covers=("model.knob_text.decode",)),
    )  # fmt: skip


def _times_v1(stat: bytes) -> object:
    return kernel_text.times_v1(stat, b"123456\n")


def _kubelet_file(data: bytes) -> object:
    both = (kubelet.DRIVER, kubelet.CGROUP_ROOT)
    return [kubelet.setting_in_text(data, setting) for setting in both]


def _kubelet_arguments(data: bytes) -> object:
    return kubelet.setting_in_arguments(kubelet.arguments_of(data), kubelet.CGROUP_ROOT)


def _knob(text: str) -> object:
    return [decode(knob, version, text) for knob in KNOBS for version in CgroupVersion]


_EXPOSITION = (
    b'# HELP a b\n# TYPE a gauge\na{x="1",y="q\\"\\n"} 1.5 1700000000000\na 2e3\n'
    b'b_bucket{le="0.1"} 3\n'
    b'b_bucket{le="+Inf"} 4\nb_count 4\nb_sum NaN\n# EOF\n'
)
_VECTOR: dict[str, Any] = {
    "status": "success", "warnings": ["w"],
    "data": {"resultType": "vector", "result": [
        {"metric": {"pod": "a", "container": "c"}, "value": [1_700_000_000.5, "1.5"]}]},
}  # fmt: skip
_MATRIX: dict[str, Any] = {
    "status": "success",
    "data": {"resultType": "matrix", "result": [
        {"metric": {"pod": "a"}, "values": [[1_700_000_000, "1"], [1_700_000_060.5, "NaN"]]}]},
}  # fmt: skip
_REFUSED = {"status": "error", "errorType": "bad_data", "error": "parse error"}
_STATUS = {
    "kind": "Status", "message": "no", "reason": "Conflict", "code": 409,
    "details": {"retryAfterSeconds": 1, "causes": [{"reason": "DisruptionBudget"}]},
}  # fmt: skip
_ENDING = {
    "status": "Failure", "message": "killed", "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "137"}]},
}  # fmt: skip
_HTTP = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nContent-Length: 3\r\n\r\nabc"


def answers() -> tuple[Reader, ...]:
    """What servers, and the clients of ours, send."""
    prometheus = (PrometheusError,)
    return (
        _data("exposition", parse_exposition, _EXPOSITION,
              covers=("observation.probes.text_format.parse_exposition",)),
        _data("text-looks", _looks, _EXPOSITION,
              covers=("observation.probes.answers.TextLooks.read",)),
        Reader("prometheus-vector", _vector, (_VECTOR, _REFUSED), Mutator.encoded,
               ("http.prometheus_api.read_answer",), prometheus),
        Reader("prometheus-matrix", _matrix, (_MATRIX, _REFUSED), Mutator.encoded,
               ("http.prometheus_api.read_range_answer",), prometheus),
        _data("prometheus-not-json", _vector, b"<html>login</html>", contract=prometheus),
        _text("prometheus-address", prometheus_api.read_address, "http://p:9090/select/0",
              covers=("http.prometheus_api.read_address",), contract=prometheus),
        Reader("api-status", lambda body: refusal("GET /x", 409, body, "1"), (_STATUS,),
               Mutator.encoded, ()),
        Reader("exec-ending", read_end, (_ENDING, {"status": "Success"}), Mutator.encoded,
               ("remote.exec_stream.read_end",)),
        _data("http-request", lambda data: RequestParser().feed(data), _HTTP, b"GET /\n\n"),
        _text("proxy", lambda text: endpoint.parse_proxy(text, "HTTPS_PROXY"),
              "http://u:p%40@proxy:3128", "[::1]:80", covers=("http.endpoint.parse_proxy",)),
        _text("listen-address", parse_listen_address, "127.0.0.1:10480", "[::1]:80",
              contract=(AddressError,), covers=("runtime.http_exchange.parse_listen_address",)),
        _data("systemd-wire", _systemd, _dbus_reply(), _dbus_reply() * 2,
              contract=(SystemdError, OSError)),
    )  # fmt: skip


def _looks(body: bytes) -> object:
    looks, names = TextLooks(100), frozenset({"a", "b:p99", "b:rate"})
    looks.read(_EXPOSITION, names, Micros(1_000_000))
    return looks.read(body, names, Micros(2_000_000))


def _vector(body: bytes) -> object:
    return prometheus_api.read_answer(HttpResponse(200, {}, body))


def _matrix(body: bytes) -> object:
    return prometheus_api.read_range_answer(HttpResponse(200, {}, body))


def _dbus_reply() -> bytes:
    from jeepney import DBusAddress, HeaderFields, new_method_call, new_method_return

    call = new_method_call(DBusAddress("/a", "a.b", "a.b"), "Get", "ss", ("a", "b"))
    call.header.fields[HeaderFields.sender] = ":1.1"
    call.header.serial = 1
    made = new_method_return(call, "v", (("t", 5),))
    data: bytes = made.serialise(serial=1)
    return data


class _Peer:
    """A socket that has said all that it will say."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def settimeout(self, _seconds: float) -> None: ...

    def sendall(self, _data: bytes) -> None: ...

    def recv(self, most: int) -> bytes:
        piece, self._data = self._data[:most], self._data[most:]
        return piece


def _systemd(data: bytes) -> object:
    peer: Any = _Peer(data)
    wire = SystemdWire(peer, sys.float_info.max)
    return wire.manager_property("Version")


def nri_messages() -> tuple[Reader, ...]:
    text, part, number = protobuf.text_field, protobuf.bytes_field, protobuf.number_field
    cpu = part(2, number(1, 50_000)) + part(3, number(1, 100_000)) + text(6, "0-1")
    resources = part(2, cpu)
    sandbox = (
        text(1, "s") + text(2, "pod") + text(3, "uid") + text(4, "ns")
        + protobuf.texts_field(5, {"a": "b"}) + part(8, text(3, "/kubepods"))
    )  # fmt: skip
    container = text(1, "id") + text(3, "main") + part(11, part(3, resources))
    creation = part(1, sandbox) + part(2, container)
    update = creation + part(3, resources)
    call = frames.encode_call(frames.Call("nri.pkg.api.Plugin", "CreateContainer", creation))
    framed = frames.encode_message(frames.Message(frames.PLUGIN, 1, frames.REQUEST, call))
    answer = frames.encode_answer(frames.TtrpcResponse(b"x", 5, "no"))
    configuration = text(2, "containerd") + text(3, "2.0") + number(5, 2000)
    wrong = (protobuf.WireError,)
    return (
        _data("nri-frames", lambda data: list(frames.FrameReader().feed(data)), framed,
              framed * 2, contract=wrong),
        _data("nri-call", frames.parse_call, call, contract=wrong,
              covers=("nri.frames.parse_call",)),
        _data("nri-answer", frames.parse_answer, answer, contract=wrong,
              covers=("nri.frames.parse_answer",)),
        _data("nri-configuration", messages.parse_configuration, configuration, contract=wrong,
              covers=("nri.messages.parse_configuration",)),
        _data("nri-creation", messages.parse_creation, creation, contract=wrong,
              covers=("nri.messages.parse_creation",)),
        _data("nri-update", _update, update, contract=wrong,
              covers=("nri.messages.parse_update",)),
    )  # fmt: skip


def _update(payload: bytes) -> object:
    return messages.encode_container_update(messages.parse_update(payload), 40_000)


_YAML = "a: &x [1, 2.5, 2026-01-01, !!binary aGk=]\nb: {c: *x, d: null}\n---\n<<: {e: 'f'}\n"
_ROTATION = (
    '{"at":"2026-11-01T10:00:00Z","top":1.5,"mean":1.0,"improvement":20,"pods":2,"misses":0,'
    '"hot":1,"judged":true,"realised":10}'
)
_BASIC = '{"cpuModel":"Xeon","hyperThreadEnabled":true,"turboEnabled":false}'
_CALIBRATION = (
    b'{"apiVersion":"slackwater.io/v1","kind":"CalibrationResult","version":"1","machine":{'
    b'"cpuModel":"Xeon","vendor":"Intel","cpus":8,"hyperThread":true,"turbo":null},"kernels":[{'
    b'"kernel":"a","single":{"median":1,"low":1,"high":2},"all":{"median":1,"low":1,"high":2}}],'
    b'"score":{"single":1.5,"all":1.2}}'
)


def texts() -> tuple[Reader, ...]:
    """Annotations, flags, variables and small files that people or other programs write."""
    workload = WorkloadName("ns", "Deployment", "web")
    invalid = (InvalidError,)
    return (
        _text("yaml", lambda text: documents_in(text, _SOURCE), _YAML, *seeds.examples("*/*.yaml"),
              contract=invalid),
        _text("one-document", lambda text: one_document(text, _SOURCE), seeds.COLOCATION, "a: 1",
              contract=invalid),
        _text("json", lambda text: parse_json(text, _SOURCE), seeds.COLOCATION, contract=invalid,
              covers=("contract.document.parse_json",)),
        _data("json-struct", lambda data: decode_struct(data, CpuBasicInfo, _SOURCE),
              _BASIC.encode(), contract=invalid, covers=("contract.decoding.decode_struct",)),
        _text("node-template", lambda text: read_node_template(text, _SOURCE), *_templates(),
              contract=invalid, covers=("manager.node_template.read_node_template",)),
        _text("report", node_report.read_report, seeds.REPORT,
              covers=("contract.node_report.read_report",)),
        _text("report-rules", node_report.read_rules, seeds.REPORT,
              covers=("contract.node_report.read_rules",)),
        _text("ratio", lambda text: parse_ratio(text, "worker"), "1.20",
              covers=("contract.koordinator.normalization.parse_ratio",)),
        _text("amplification-ratios", lambda text: read_ratios(text, "worker"),
              '{"cpu":1.80,"memory":1}',
              covers=("contract.koordinator.amplification.read_ratios",)),
        _text("amplification-record", read_record,
              '{"ratio":"1.5","cpu":{"stored":"12","raw":"8"},"memory":{"stored":"1Gi"}}',
              covers=("contract.koordinator.amplification.read_record",)),
        _text("selector", lambda text: parse_selector(text, "--selector"),
              "app=a,tier in (x,y),!canary,z notin (q),k!=v", contract=invalid,
              covers=("contract.label_selector.parse_selector",)),
        _text("features", lambda text: read_features(text, "--supported-features"),
              "*,-Eviction,OverSubscription", contract=invalid,
              covers=("contract.volcano.node.read_features",)),
        _text("last-rotation", lambda text: decode_last_rotation(text, workload, _seconds),
              _ROTATION, covers=("rebalancer.last_rotation.decode_last_rotation",)),
        _text("day-recording", lambda text: read_recording(text, _SOURCE, Cores(0.5)),
              "\n".join(seeds.examples("rebalancer/day.csv")[0].split("\n")[:30]),
              msgspec.json.encode(_MATRIX).decode(), contract=invalid,
              covers=("rebalancer.whatif.day_recording.read_recording",)),
        _data("calibration", lambda data: read_result(data, _SOURCE), _CALIBRATION,
              contract=invalid, covers=("calibration.ratio_model.read_result",)),
        _text("demo-entry", lambda text: parse_entry(text, 1.0),
              '{"what":"a","before":"1","after":"2","because":"b"}',
              covers=("demo.processes.parse_entry",)),
        _data("recording", decode_recording, *_recordings(), contract=(RecordingError,),
              covers=("record.recording.decode_recording", "record.recording.decode_key")),
        Reader("recording-replay", _replay, (_recorded(),), Mutator.lines, (), (RecordingError,)),
        _text("timestamp", parse_timestamp, "2026-11-01T10:00:00Z",
              covers=("record.timestamps.parse_timestamp",)),
        _text("bool", parse_bool, "true", covers=("contract.decoding.parse_bool",)),
        _text("cpu-set", CpuSet.parse, "0-3,8", contract=(CpuListError,),
              covers=("model.cpus.CpuSet.parse",)),
        _text("knob-key", KnobKey.parse, "12/cpu.weight", contract=(ValueError,),
              covers=("model.knob.KnobKey.parse",)),
        _text("unit-properties", parse_properties,
              "CPUQuotaPerSecUSec=500000 CPUQuotaPeriodUSec=18446744073709551615",
              covers=("model.unit_property.parse_properties",)),
        *_amounts((("quantity", parse_quantity, "1.5Gi"), ("milli-cpu", parse_milli_cpu, "500m"),
                   ("bytes", parse_bytes, "1e3"))),
        _text("duration", lambda text: parse_duration(text, "--period"), "1h30m", "1.5s",
              contract=(DurationError,), covers=("model.units.parse_duration",)),
    )  # fmt: skip


def _amounts(rows: Sequence[tuple[str, Callable[[str], object], str]]) -> tuple[Reader, ...]:
    return tuple(
        _text(name, call, seed, contract=(QuantityError,),
              covers=(f"model.units.parse_{name.replace('-', '_')}",))
        for name, call, seed in rows
    )  # fmt: skip


def _seconds(text: str) -> float | None:
    found = parse_timestamp(text)
    return None if found is None else found.timestamp()


def _templates() -> tuple[str, ...]:
    made = msgspec.json.encode(seeds.TEMPLATE).decode()
    return (made, made.replace('"cpu"', '"{{ .metadata.name }}"', 1))


def _replay(data: bytes) -> object:
    return replay(decode_recording(data), POLICIES)


def _recorded() -> list[object]:
    return [msgspec.json.decode(line) for line in _recordings()[0].split(b"\n")]


def _recordings() -> tuple[bytes, ...]:
    lines = seeds.RECORDING.read_bytes().split(b"\n")
    return (b"\n".join(lines[:3]), b"\n".join(lines[:5]))
