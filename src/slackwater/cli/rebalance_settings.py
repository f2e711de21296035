"""What the command line, the environment and the file say together: one RunSettings.

The command line names the workloads, else DEPLOYMENT_NAME does; with a file they pick from its
list, and without them the whole list counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import click
import msgspec
from msgspec import inspect

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_options import texts_of
from slackwater.contract import rebalancer_environment as original
from slackwater.contract.decoding import check_text
from slackwater.model.gap import Gap
from slackwater.model.problem import Problem, quoted
from slackwater.settings.rebalancer import RunSettings, WorkloadSettings
from slackwater.settings.rebalancer_document import (
    BY_KEY,
    RUN_SETTINGS,
    SETTINGS,
    FileSettings,
    StatedWorkload,
    conflicts,
    read_file,
    run_settings,
    unreachable_target,
    workload_settings,
)
from slackwater.settings.setting import FILE, ObjectName, Setting, StatedText, check_texts

#: As kubectl takes them, in front of a name.
_KINDS = {
    word: kind
    for kind, words in (
        ("Deployment", ("deployment", "deployments", "deploy")),
        ("StatefulSet", ("statefulset", "statefulsets", "sts")),
        ("ReplicaSet", ("replicaset", "replicasets", "rs")),
    )
    for word in words
}


class NamedWorkload(msgspec.Struct, frozen=True):
    """A workload that was named; `kind` is empty where only its name was."""

    name: str
    kind: str = ""

    def stated(self) -> StatedWorkload:
        return StatedWorkload(self.name, {"kind": self.kind} if self.kind else {})

    def fits(self, listed: WorkloadSettings) -> bool:
        known = "" in (self.kind, listed.kind) or self.kind == listed.kind
        return listed.name == self.name and known


class Resolved(msgspec.Struct, frozen=True):
    """`warnings`: sentences for stderr. `origins`: the flag or variable that said a key."""

    settings: RunSettings
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = {}


def resolved(
    names: Sequence[str],
    file: str,
    flags: Mapping[str, str | bool | None],
    environment: Mapping[str, str],
) -> RunSettings:
    """The same at start: with the warnings on stderr, and files that are named can be read."""
    found = resolve(names, file, flags, environment)
    refuse(unreadable_files(found.settings, found.origins, file))
    for sentence in found.warnings:
        click.echo(f"slackwater: {sentence}", err=True)
    return found.settings


def resolve(
    names: Sequence[str],
    file: str,
    flags: Mapping[str, str | bool | None],
    environment: Mapping[str, str],
) -> Resolved:
    """Raises WrongSettings with a line for each bad value."""
    problems: list[Problem] = []
    filed = _read_file(file, problems)
    variables, said = _texts(flags, environment)
    # A bad variable is told even where a flag overrules it.
    texts = check_texts(SETTINGS, variables, problems) | check_texts(SETTINGS, said, problems)
    named = _named_workloads(names, environment.get(original.WORKLOAD, ""), problems)
    if not named and not file:
        raise WrongSettings(f"no workload is named: say one, or --file, or set {original.WORKLOAD}")
    refuse(problems)
    listed, defaults = filed.workloads, filed.defaults
    if not file:
        listed = tuple(each.stated() for each in named)
        # The original's own defaults come with its variable, and with nothing else.
        defaults = {} if names else original.DEFAULTS
    workloads = tuple(workload_settings(each, defaults, texts) for each in listed)
    settings = msgspec.structs.replace(run_settings(filed.run, texts), workloads=workloads)
    if file:
        settings = _pick(settings, named, file)
    refuse(conflicts(settings))
    unreachable = filter(None, map(unreachable_target, settings.workloads))
    origins = {key: text.where for key, text in {**variables, **said}.items()}
    return Resolved(settings, (*original.warnings(environment), *unreachable), origins)


def refuse(problems: Iterator[Problem] | Sequence[Problem]) -> None:
    """Where there are any: each sentence with the name in front, as a single one has."""
    if sentences := [each.sentence() for each in problems]:
        raise WrongSettings("\nslackwater: ".join(sentences))


def _read_file(file: str, problems: list[Problem]) -> FileSettings:
    from slackwater.model.problem import InvalidError
    from slackwater.observation.objects.documents import file_text, one_document

    if not file:
        return FileSettings()
    try:
        document = one_document(file_text(file, file), file)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    return read_file(document, file, problems)


def _texts(
    flags: Mapping[str, str | bool | None], environment: Mapping[str, str]
) -> tuple[dict[str, StatedText], dict[str, StatedText]]:
    """Variables and flags, by the settings' keys."""
    own = {each.key: each.variable for each in SETTINGS}
    variables = {
        key: StatedText(each.variable, each.text)
        for key, each in original.read_variables(environment, own).items()
    }
    said = {key: StatedText(BY_KEY[key].flag, text) for key, text in texts_of(flags).items()}
    return variables, said


def _named_workloads(
    names: Sequence[str], deployment: str, problems: list[Problem]
) -> tuple[NamedWorkload, ...]:
    if names:
        return tuple(_parse_name(each, problems) for each in names)
    if not deployment:
        return ()
    return (NamedWorkload(_checked_name(deployment, original.WORKLOAD, problems)),)


def _parse_name(text: str, problems: list[Problem]) -> NamedWorkload:
    """web, or deployment/web."""
    kind, slash, name = text.rpartition("/")
    if slash and kind.lower() not in _KINDS:
        bound = "a name, or deployment/, statefulset/ or replicaset/ and a name"
        problems.append(Problem("WORKLOAD", quoted(text), bound))
        return NamedWorkload("")
    return NamedWorkload(_checked_name(name, "WORKLOAD", problems), _KINDS.get(kind.lower(), ""))


def _checked_name(name: str, where: str, problems: list[Problem]) -> str:
    check_text(inspect.type_info(ObjectName), name, where, problems)
    return name


def _pick(settings: RunSettings, named: Sequence[NamedWorkload], file: str) -> RunSettings:
    """Those of the file's that were named; all where none was."""
    for each in named:
        if not any(each.fits(listed) for listed in settings.workloads):
            raise WrongSettings(f"{each.name} is not among the workloads of {file}")
    chosen = tuple(
        listed
        for listed in settings.workloads
        if not named or any(each.fits(listed) for each in named)
    )
    if not chosen:
        raise WrongSettings(f"{file} has no workloads: list them at spec.workloads")
    return msgspec.structs.replace(settings, workloads=chosen)


def unreadable_files(
    settings: RunSettings, origins: Mapping[str, str], file: str
) -> Iterator[Problem]:
    """Files that are named and will be read, as they are now. The flag, the variable or the
    file's key that named one is blamed."""
    from slackwater.bounded_read import read_start

    for setting in SETTINGS:
        if FILE not in setting.annotation.extra:
            continue
        for path in dict.fromkeys(_paths(setting, settings)):
            found = read_start(path, 1) if path else None
            if isinstance(found, Gap):
                where = origins.get(setting.key, f"{file}: {setting.key}")
                bound = f"a file that can be read ({found.reason})"
                yield Problem(where, quoted(path), bound)


def _paths(setting: Setting, settings: RunSettings) -> Iterator[str]:
    """Those of brokers only where brokers are asked."""
    asked: list[RunSettings | WorkloadSettings] = [settings]
    if setting not in RUN_SETTINGS:
        asked = [
            each
            for each in settings.workloads
            if each.kafka.enabled and each.kafka.bootstrap_servers
        ]
    for each in asked:
        yield str(reduce(getattr, setting.path, each))
