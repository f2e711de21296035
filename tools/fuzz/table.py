"""Every reader of foreign text or objects, and why some functions of such a name are not there."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from tools.fuzz import seeds
from tools.fuzz.reading_files import files
from tools.fuzz.reading_objects import api_objects_as_json, file_objects
from tools.fuzz.reading_text import answers, kernel_files, nri_messages, texts
from tools.fuzz.running import Reader

SOURCE = seeds.ROOT / "src/slackwater"


def readers(folder: Path) -> tuple[Reader, ...]:
    """`folder` is empty, and theirs alone."""
    return (
        *file_objects(), *api_objects_as_json(), *kernel_files(), *answers(), *nri_messages(),
        *texts(), *files(folder),
    )  # fmt: skip


_FILES = "opens kernel files; their texts are the rows kernel-* and proc-*"
_KNOB = "reads a knob; its text is the row knob"
_SOURCE_OF_OBJECTS = "asks its informers or the simulation; the objects are rows"
_LEDGER = "a line of the ledger: the rows ledger and ledger-lines"
_CLIENT = "asks through a client, whose decoding is in rows; the rest are typed values"
#: Functions of such a name that are not in the table, and why.
EXEMPT: Mapping[str, str] = {
    "agent.dependencies.ObjectSource.read": "a protocol",
    "agent.interception.StartLedger.read_quota": "a protocol",
    "bounded_read.read_start": "bytes as they are; every file row goes through it",
    "cli.cluster_options.parse_namespace": "one regular expression over a flag",
    "cli.cluster_options.parse_object_name": "one regular expression over a flag",
    "cli.ui_sources.read_recording": "decode_recording, whose row is recording",
    "contract.rebalancer_environment.read_variables": "hands texts on as they are",
    "demo.cgroup_tree.read_file": "reads what the demo wrote",
    "demo.measurements.CpuMeter.read": _FILES,
    "doctor.examination.read_now": "the clock",
    "execution.cgroup_writer.CgroupWriter.read": _KNOB,
    "execution.executor.Executor.read_quota": _KNOB,
    "execution.knob_writer.KnobFiles.read": "a protocol",
    "execution.ledger_lines.decode_header": _LEDGER,
    "execution.ledger_lines.decode_json": _LEDGER,
    "execution.unit_writer.UnitWriter.read": "a unit's properties: the row systemd-wire",
    "http.connection.read_body": "bytes as they are, bounded",
    "kube.informer.ObjectStore.read_listed": "decode_name and a reader of the rows api-*",
    "manager.prediction_object.StoredStatus.decode": "what the row prediction-object has checked",
    "observation.cgroups.reader.CgroupReader.read": _FILES,
    "observation.cgroups.tree.CgroupTree.read": _FILES,
    "observation.cpu_inventory.CpuInventory.read": _FILES,
    "observation.host.NodeUsageMeter.read": _FILES,
    "observation.host.NodeUsageMeter.read_pressure": _FILES,
    "observation.host.read_machine": _FILES,
    "observation.host.read_online": _FILES,
    "observation.host.read_pressure": _FILES,
    "observation.host.read_ticks": _FILES,
    "observation.host.read_topology": _FILES,
    "observation.metrics.node_metrics.read_proc": "bytes as they are, bounded",
    "observation.node_topology.TopologyReader.read": _FILES,
    "observation.objects.cluster.ClusterObjects.read": _SOURCE_OF_OBJECTS,
    "observation.survey.SlowReadings.read": _FILES,
    "observation.survey.read_of_held": "of a level, which is ours",
    "policies.ensurance.relief.read_whole": "of a snapshot, which is ours",
    "rebalancer.sources.cluster_reader.ClusterReader.read": _CLIENT,
    "rebalancer.sources.kafka_brokers.Brokers.read_lag": "kafka-python decodes the wire",
    "rebalancer.sources.kafka_brokers.read_group": "kafka-python decodes the wire",
    "rebalancer.sources.kafka_brokers.read_lag": "kafka-python decodes the wire",
    "rebalancer.sources.kafka_exporter.read_lag": _CLIENT,
    "rebalancer.sources.metrics_api.read_usage": _CLIENT,
    "rebalancer.sources.prometheus_usage.read_usage": _CLIENT,
    "settings.manager.read_prometheus": "flags, of the same schema as the row rebalancer-settings",
    "simulation.fake_kernel.FakeKernel.read": _SOURCE_OF_OBJECTS,
    "simulation.simulated_node.ScenarioSource.read": _SOURCE_OF_OBJECTS,
    "ui.cluster_views.read_query": "words of an address: each is a search, or ignored",
}
_NAMED = re.compile(r"(?:read|parse|decode)(?:_\w+)?|load|from_files")


def reading_functions() -> frozenset[str]:
    """Public functions and methods whose names say that they read, by module and name."""
    return frozenset(
        name
        for path in SOURCE.rglob("*.py")
        for name in _found_in(path, ast.parse(path.read_text()))
    )


def _found_in(path: Path, tree: ast.Module) -> list[str]:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    found: list[str] = []
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) and node.name[0] != "_" else [node]
        owner = f"{module}.{node.name}" if isinstance(node, ast.ClassDef) else module
        found += [
            f"{owner}.{each.name}"
            for each in inner
            if isinstance(each, ast.FunctionDef) and _NAMED.fullmatch(each.name)
        ]
    return found
