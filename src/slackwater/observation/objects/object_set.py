"""The cluster's objects as the agent takes them, from wherever they come.

Owns how they are put together: of two pods with one uid the last counts, a static pod's copy has
that pod's cgroup, and a pod has the memory ratios of the newest ColocationConfiguration that
selects it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from slackwater.contract.crane.ensurance_set import (
    NO_OBJECTS,
    EnsuranceObjects,
    allow_nothing,
    join_ensurance,
    read_ensurance,
)
from slackwater.contract.crane.node_forecast import NodePrediction, read_node_prediction
from slackwater.contract.crane.unknown_fields import find_unknown_fields
from slackwater.contract.document import Field
from slackwater.contract.kubernetes import (
    ConfigMap,
    Node,
    kind_of,
    read_config_map,
    read_node,
)
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.contract.mirror_pod import assign_cgroups
from slackwater.contract.pod_protection import exemption_problem
from slackwater.contract.resources import POD_QOS, TIME_SERIES_PREDICTIONS
from slackwater.contract.volcano.colocation_config import (
    CONFIG_MAP,
    ColocationConfig,
    config_text,
    is_config,
    read_config,
)
from slackwater.contract.volcano.pod import KIND as POD_CONFIGURATION
from slackwater.contract.volcano.pod import (
    PodConfiguration,
    ratios_for,
    read_colocation_configuration,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem, DocumentName, sentences
from slackwater.model.units import Micros
from slackwater.observation.objects.documents import one_document
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.agent_document import KIND as SETTINGS_KIND
from slackwater.settings.agent_document import Settings, SettingsSchema

#: What follows from an object that is wrong now and was good before.
STAYS = "its last valid content stays in force"
#: Our own settings in a cluster.
SETTINGS_MAP, SETTINGS_KEY = "slackwater-agent", "settings.yaml"
#: Beside them: a word, by which every agent is asked to release everything. It repeats the word
#: in its report once it has. Empty: nobody asks.
RELEASE_KEY = "release"


class RecalledSettings(msgspec.Struct, frozen=True):
    """What settings said in an earlier run, where they were good."""

    colocation: ColocationConfig | None = None
    settings: Settings | None = None


class Objects(msgspec.Struct, frozen=True):
    """What the folder, or the cluster, says. Of several configurations the last one counts."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    colocation: ColocationConfig | None = None
    settings: Settings | None = None
    pod_configurations: tuple[PodConfiguration, ...] = ()
    problems: tuple[ConfigurationProblem, ...] = ()
    #: What has no effect, such as an unknown key: told, and nothing else.
    warnings: tuple[str, ...] = ()
    ensurance: EnsuranceObjects = NO_OBJECTS
    #: Of any node.
    predictions: tuple[NodePrediction, ...] = ()
    #: How old they were at the agent's start, where they come from its checkpoint.
    saved_age: Micros | None = None
    #: Of the first objects of a cluster: what stays in force where a policy refuses theirs.
    recalled: RecalledSettings | None = None


class SavedObjects(msgspec.Struct, frozen=True):
    """Objects of an earlier run, and how long ago they were known to be so."""

    objects: Objects
    age: Micros


class MissingObjects(Gap, frozen=True):
    """Why the agent cannot begin; `problems` where bad configuration is the reason."""

    problems: tuple[ConfigurationProblem, ...] = ()


def own_node(nodes: Iterable[Node], name: str, host: str) -> Node | None:
    """The Node object of this name. Where no name was asked for: the host's, else the last."""
    by_name = {node.name: node for node in nodes}
    if name:
        return by_name.get(name)
    return by_name.get(host) or next(reversed(by_name.values()), None)


def joined(
    parts: Sequence[Objects],
    problems: Mapping[str, ConfigurationProblem],
    name: str = "",
    host: str = "",
) -> Objects:
    """`name` and `host` are what this agent's node goes by: see own_node."""
    pods: dict[str, Pod] = {}
    nodes: dict[str, Node] = {}
    colocation, settings = None, None
    twice: list[str] = []
    for each in parts:
        for pod in each.pods:
            if pod.uid in pods:
                names = f"{pods[pod.uid].name} and {pod.name}"
                twice.append(f"the pods {names} have one uid, {pod.uid}: the last counts")
            pods[pod.uid] = pod
        nodes.update((node.name, node) for node in each.nodes)
        colocation = each.colocation or colocation
        settings = each.settings or settings
    configured = {
        (each.namespace, each.name): each for part in parts for each in part.pod_configurations
    }
    node = own_node(nodes.values(), name, host)
    assigned, unbelieved = assign_cgroups(
        pods.values(), node.name if node else name or host.lower(), node.uid if node else ""
    )
    told = (*(problems[source] for source in sorted(problems)), *unbelieved)
    warned = twice + [warning for each in parts for warning in each.warnings]
    warned += [warning for each in configured.values() for warning in each.warnings]
    warned += colocation.warnings if colocation else ()
    unclear = [found for pod in assigned if (found := exemption_problem(pod))]
    warned += [f"{sentences(unclear)}; until then it is exempt"] if unclear else []
    return Objects(
        tuple(_configured(pod, configured.values()) for pod in assigned),
        tuple(nodes.values()),
        colocation,
        settings,
        tuple(configured.values()),
        told,
        tuple(warned),
        join_ensurance((*_unreadable(problems.values()), *(each.ensurance for each in parts))),
        tuple(each for part in parts for each in part.predictions),
    )


def _configured(pod: Pod, configurations: Iterable[PodConfiguration]) -> Pod:
    """With the ratios of the newest configuration, which Volcano's controller would write into an
    annotation of the pod."""
    ratios = ratios_for(configurations, pod.labels, pod.namespace)
    return pod if ratios is None else msgspec.structs.replace(pod, memory_ratios=ratios)


def with_object(
    found: Objects, document: object, source: str, schema: SettingsSchema = SETTINGS
) -> Objects:
    """The objects so far and this one; kinds that nobody reads are left out."""
    kind = kind_of(document, source)
    read = _with_object(found, kind, document, source, schema)
    if read is found:
        return found
    unknown = find_unknown_fields(kind, document, source)
    return msgspec.structs.replace(read, warnings=(*read.warnings, *unknown)) if unknown else read


def _with_object(
    found: Objects, kind: str, document: object, source: str, schema: SettingsSchema
) -> Objects:
    match kind:
        case "Pod":
            pods = (*found.pods, read_pod(document, source))
            return msgspec.structs.replace(found, pods=pods)
        case "Node":
            nodes = (*found.nodes, read_node(document, source))
            return msgspec.structs.replace(found, nodes=nodes)
        case "ConfigMap":
            return _with_config_map(found, read_config_map(document, source), source, schema)
        case _ if kind == POD_CONFIGURATION:
            made = read_colocation_configuration(document, source)
            configurations = (*found.pod_configurations, made)
            return msgspec.structs.replace(found, pod_configurations=configurations)
        case _ if kind == SETTINGS_KIND:
            return msgspec.structs.replace(found, settings=schema.read_file(document, source))
        case "" if is_config(document):
            return msgspec.structs.replace(found, colocation=read_config(document, source))
        case _ if kind == TIME_SERIES_PREDICTIONS.kind:
            prediction = read_node_prediction(document, source)
            if prediction is None:
                return found
            predictions = (*found.predictions, prediction)
            return msgspec.structs.replace(found, predictions=predictions)
        case _:
            read = read_ensurance(kind, document, source)
            if read is None:
                return found
            ensurance = join_ensurance((found.ensurance, read))
            return msgspec.structs.replace(found, ensurance=ensurance)


def _with_config_map(
    found: Objects, config_map: ConfigMap, source: str, schema: SettingsSchema
) -> Objects:
    where = DocumentName(source, "ConfigMap", "", config_map.name)
    if config_map.name == CONFIG_MAP:
        return msgspec.structs.replace(found, colocation=colocation_in(config_map, where))
    if config_map.name == SETTINGS_MAP:
        return msgspec.structs.replace(found, settings=settings_in(config_map, where, schema))
    return found


def colocation_in(config_map: ConfigMap, where: DocumentName) -> ColocationConfig:
    return read_config(one_document(config_text(config_map, where), where), where)


def settings_in(
    config_map: ConfigMap, where: DocumentName, schema: SettingsSchema = SETTINGS
) -> Settings:
    if SETTINGS_KEY not in config_map.data:
        raise Field(where, f"data[{SETTINGS_KEY!r}]", None).refused("AgentSettings as YAML")
    return schema.read_file(one_document(config_map.data[SETTINGS_KEY], where), where)


def _unreadable(problems: Iterable[ConfigurationProblem]) -> Iterator[EnsuranceObjects]:
    """Whoever wrote a PodQOS meant to narrow down which pods may be touched: one that cannot be
    read, and was never good, counts as one that matches none."""
    for each in problems:
        for document in (each.about, *(problem.document for problem in each.problems)):
            if document is not None and document.kind == POD_QOS.kind:
                yield allow_nothing(document.name)
