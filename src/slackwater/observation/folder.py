"""A folder of YAML and JSON files as the cluster's objects: the standalone mode's API server.

Owns the files' last good contents. A half-written or bad file is named, and what it said before
stays until it is good again or gone. Reads only files that changed.
"""

import os
from collections.abc import Iterable, Sequence

import msgspec

from slackwater.contract.document import ContractError
from slackwater.contract.kubernetes import (
    Node,
    kind_of,
    objects_in,
    read_config_map,
    read_node,
)
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.contract.volcano_document import (
    CONFIG_MAP,
    ColocationConfig,
    config_text,
    is_config,
    read_config,
)
from slackwater.contract.volcano_memory_ratios import KIND as POD_CONFIGURATION
from slackwater.contract.volcano_memory_ratios import (
    MEMORY_QOS,
    PodConfiguration,
    ratios_for,
    read_colocation_configuration,
)
from slackwater.contract.volcano_pod import COLOCATION_CONFIG
from slackwater.model.complaint import Complaint, quoted
from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import LARGEST_READ, read_start
from slackwater.settings.bound import SettingsError
from slackwater.settings.document import KIND as SETTINGS_KIND
from slackwater.settings.document import Settings, read_settings

_ENDINGS = (".yaml", ".yml", ".json")
_AgeMark = tuple[int, int, int]
#: In a folder with more files than this, those of pods alone are looked at in turns: an edit in
#: place is seen after so many reads at most.
_SMALL_FOLDER = 64
_TURNS = 10


class Objects(msgspec.Struct, frozen=True):
    """What the folder says. Of several configurations the last file's counts."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    colocation: ColocationConfig | None = None
    settings: Settings | None = None
    pod_configurations: tuple[PodConfiguration, ...] = ()
    problems: tuple[str, ...] = ()
    #: What has no effect, such as an unknown key: told, and nothing else.
    warnings: tuple[str, ...] = ()


class Folder:
    """Guards nothing but its memory of the files."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._marks: dict[str, _AgeMark] = {}
        self._good: dict[str, Objects] = {}
        self._problems: dict[str, str] = {}
        self._known = Objects()
        self._folder_mark: _AgeMark | None = None
        #: Files that are looked at each time: whatever is not about pods alone.
        self._urgent: tuple[str, ...] = ()
        self._reads = 0

    def read(self) -> Objects | Gap:
        """The same object again where nothing changed."""
        self._reads += 1
        mark = _mark(self._path)
        # A file that comes or goes changes the folder's own mark; but that is no finer than the
        # kernel's clock, so it is not believed for ever.
        large = len(self._marks) > _SMALL_FOLDER
        if large and mark == self._folder_mark and self._reads % _TURNS:
            return self._look_at_some()
        try:
            names = sorted(n for n in os.listdir(self._path) if _is_ours(n))
        except OSError as error:
            return Gap(f"the folder {self._path} cannot be read: {error.strerror}")
        self._folder_mark = mark
        return self._take_all({name: _mark(f"{self._path}/{name}") for name in names})

    def _look_at_some(self) -> Objects:
        """Settings, nodes and bad files each time, pods in turns."""
        turn = list(self._marks)[self._reads % _TURNS :: _TURNS]
        seen = {name: _mark(f"{self._path}/{name}") for name in {*turn, *self._urgent}}
        if all(self._marks[name] == mark for name, mark in seen.items()):
            return self._known
        return self._take_all(self._marks | seen)

    def _take_all(self, marks: dict[str, _AgeMark]) -> Objects:
        names = list(marks)
        changed = [name for name in names if marks[name] != self._marks.get(name)]
        if not changed and marks.keys() == self._marks.keys():
            return self._known
        for name in self._marks.keys() - marks.keys():
            self._good.pop(name, None)
            self._problems.pop(name, None)
        for name in changed:
            self._take(name)
        self._marks = marks
        self._urgent = tuple(n for n in names if not _is_pods(self._good.get(n, Objects())))
        self._known = _joined([self._good[n] for n in names if n in self._good], self._problems)
        return self._known

    def _take(self, name: str) -> None:
        self._problems.pop(name, None)
        try:
            self._good[name] = _objects(f"{self._path}/{name}", name)
        except (ContractError, SettingsError) as error:
            stays = "; what it said before stays" if name in self._good else ""
            self._problems[name] = f"{error}{stays}"


def _is_pods(objects: Objects) -> bool:
    """Whether it says nothing but pods."""
    return bool(objects.pods) and objects == Objects(pods=objects.pods)


def _is_ours(name: str) -> bool:
    return name.endswith(_ENDINGS) and not name.startswith(".")


def _mark(path: str) -> _AgeMark:
    """A file that cannot be looked at, a dangling link say, has a mark too: reading it says why."""
    try:
        status = os.stat(path)
    except OSError as error:
        return 0, 0, error.errno or 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def _joined(files: Sequence[Objects], problems: dict[str, str]) -> Objects:
    pods: dict[str, Pod] = {}
    nodes: dict[str, Node] = {}
    colocation, settings = None, None
    twice: list[str] = []
    for each in files:
        for pod in each.pods:
            if pod.cgroup_uid in pods:
                names = f"{pods[pod.cgroup_uid].name} and {pod.name}"
                twice.append(f"the pods {names} have one uid, {pod.cgroup_uid}: the last counts")
            pods[pod.cgroup_uid] = pod
        nodes.update((node.name, node) for node in each.nodes)
        colocation = each.colocation or colocation
        settings = each.settings or settings
    configured = {
        (each.namespace, each.name): each for file in files for each in file.pod_configurations
    }
    told = tuple(problems[name] for name in sorted(problems))
    warned = twice + [warning for each in configured.values() for warning in each.warnings]
    warned += colocation.warnings if colocation else ()
    return Objects(
        tuple(_configured(pod, configured.values()) for pod in pods.values()),
        tuple(nodes.values()),
        colocation,
        settings,
        tuple(configured.values()),
        told,
        tuple(warned),
    )


def _configured(pod: Pod, configurations: Iterable[PodConfiguration]) -> Pod:
    """With the annotation that Volcano's controller would write for the newest configuration."""
    ratios = ratios_for(configurations, pod.labels, pod.namespace)
    if ratios is None:
        return pod
    said = msgspec.json.encode({MEMORY_QOS: ratios}).decode()
    return msgspec.structs.replace(pod, annotations={**pod.annotations, COLOCATION_CONFIG: said})


def _objects(path: str, source: str) -> Objects:
    found = Objects()
    for document in documents_in(file_text(path, source), source):
        for each in objects_in(document, source) if document is not None else ():
            found = with_object(found, each, source)
    return found


def with_object(found: Objects, document: object, source: str) -> Objects:
    """The objects so far and this one; kinds that nobody reads are left out."""
    match kind_of(document, source):
        case "Pod":
            pods = (*found.pods, read_pod(document, source))
            return msgspec.structs.replace(found, pods=pods)
        case "Node":
            nodes = (*found.nodes, read_node(document, source))
            return msgspec.structs.replace(found, nodes=nodes)
        case "ConfigMap":
            config_map = read_config_map(document, source)
            if config_map.name != CONFIG_MAP:
                return found
            where = f"{source}: ConfigMap {CONFIG_MAP}"
            inner = documents_in(config_text(config_map, where), where)
            if len(inner) != 1:
                raise ContractError(Complaint(where, f"{len(inner)} documents", "one document"))
            return msgspec.structs.replace(found, colocation=read_config(inner[0], where))
        case kind if kind == POD_CONFIGURATION:
            made = read_colocation_configuration(document, source)
            configurations = (*found.pod_configurations, made)
            return msgspec.structs.replace(found, pod_configurations=configurations)
        case kind if kind == SETTINGS_KIND:
            return msgspec.structs.replace(found, settings=read_settings(document, source))
        case "" if is_config(document):
            return msgspec.structs.replace(found, colocation=read_config(document, source))
        case _:
            return found


def file_text(path: str, source: str) -> str:
    contents = read_start(path)
    if isinstance(contents, Gap):
        raise ContractError(Complaint(source, contents.reason, "a readable file"))
    if contents.cut:
        raise ContractError(Complaint(source, f"over {LARGEST_READ} bytes", "a smaller file"))
    try:
        return contents.data.decode()
    except UnicodeDecodeError as error:
        raise ContractError(Complaint(source, f"no UTF-8 at byte {error.start}", "UTF-8")) from None


def documents_in(text: str, source: str) -> list[object]:
    """YAML, of which JSON is a part. Imported here: a cluster's agent never needs it."""
    import yaml

    # libyaml's parser is eight times as fast; not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(yaml.load_all(text, loader))
    # Its constructors raise whatever their conversions do: `!!int ""` is an IndexError.
    except (
        yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        what = getattr(error, "problem", None) or type(error).__name__
        raise ContractError(Complaint(where, quoted(what), "YAML or JSON")) from None
