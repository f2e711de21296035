"""What the command line, the environment and the file say together: one RunSettings.

Owns who names the workloads: the command line, else DEPLOYMENT_NAME; with a file they pick from
its list, and without them the whole list counts.
"""

from collections.abc import Mapping, Sequence

import click
import msgspec

from slackwater.cli.output import WrongSettings
from slackwater.cli.rebalance_named import Spoken, bad_selectors, unreadable
from slackwater.cli.rebalance_options import texts_of
from slackwater.contract import rebalancer as original
from slackwater.model.problem import Problem, quoted
from slackwater.settings.rebalancer import RunSettings, WorkloadSettings
from slackwater.settings.rotation_document import (
    BY_KEY,
    ENTRIES,
    NAME,
    Filed,
    Listed,
    Problems,
    RotationError,
    Said,
    Worded,
    read_file,
    read_texts,
    run_settings,
    workload_settings,
)
from slackwater.settings.rotation_harmony import discords, futile
from slackwater.settings.wording import check_wording

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


class Wanted(msgspec.Struct, frozen=True):
    """A workload that was named; `kind` is empty where only its name was."""

    name: str
    kind: str = ""

    def listed(self) -> Listed:
        return Listed(self.name, {"kind": self.kind} if self.kind else {})

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
    problems = Problems()
    for each in unreadable(found.settings, found.origins, file):
        problems.add(each)
    _settle(problems)
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
    problems = Problems()
    filed = _filed(file, problems)
    spoken = _spoken(flags, environment, problems)
    texts = {key: value for each in spoken for key, value in each.said.items()}
    for bad in bad_selectors(file, filed, spoken):
        problems.add(bad)
    deployment = environment.get(original.WORKLOAD, "")
    wanted = _wanted(names, deployment, problems)
    if not wanted and not file:
        raise WrongSettings(f"no workload is named: say one, or --file, or set {original.WORKLOAD}")
    listed = filed.workloads
    defaults = filed.defaults
    if not file:
        listed = tuple(
            Listed(each.name, {"kind": each.kind} if each.kind else {}) for each in wanted
        )
        # The original's own defaults come with its variable, and with nothing else.
        defaults = {} if names else original.DEFAULTS
    _settle(problems)
    settings = _joined(filed.run, listed, defaults, texts)
    if file:
        settings = _picked(settings, wanted, file)
    for discord in discords(settings):
        problems.add(discord)
    _settle(problems)
    remarks = (*original.warnings(environment), *filter(None, map(futile, settings.workloads)))
    origins = {key: word.where for each in spoken for key, word in each.words.items()}
    return Resolved(settings, remarks, origins)


def _filed(file: str, problems: Problems) -> Filed:
    from slackwater.model.problem import InvalidError
    from slackwater.observation.objects.documents import file_text, one_document

    if not file:
        return Filed()
    try:
        document = one_document(file_text(file, file), file)
    except InvalidError as error:
        raise WrongSettings(str(error)) from None
    return read_file(document, file, problems)


def _spoken(
    flags: Mapping[str, str | bool | None], environment: Mapping[str, str], problems: Problems
) -> tuple[Spoken, Spoken]:
    """Variables, then flags, which overrule them. A bad variable is told even then."""
    own = {entry.key: entry.variable for entry in ENTRIES}
    variables = {
        key: Worded(each.variable, each.text)
        for key, each in original.spoken(environment, own).items()
    }
    said = {key: Worded(BY_KEY[key].flag, text) for key, text in texts_of(flags).items()}
    return (
        Spoken(variables, read_texts(variables, problems)),
        Spoken(said, read_texts(said, problems)),
    )


def _wanted(names: Sequence[str], deployment: str, problems: Problems) -> tuple[Wanted, ...]:
    if names:
        return tuple(_parsed(each, "WORKLOAD", problems) for each in names)
    if not deployment:
        return ()
    name = problems.hear(lambda: check_wording(NAME, deployment, original.WORKLOAD), "")
    return (Wanted(name),)


def _parsed(text: str, where: str, problems: Problems) -> Wanted:
    """web, or deployment/web."""
    kind, slash, name = text.rpartition("/")
    if slash and kind.lower() not in _KINDS:
        wanted = "a name, or deployment/, statefulset/ or replicaset/ and a name"
        problems.add(Problem(where, quoted(text), wanted))
        return Wanted("")
    good = problems.hear(lambda: check_wording(NAME, name, where), "")
    return Wanted(good, _KINDS.get(kind.lower(), ""))


def _joined(run: Said, listed: Sequence[Listed], defaults: Said, texts: Said) -> RunSettings:
    workloads = tuple(workload_settings(each, defaults, texts) for each in listed)
    return msgspec.structs.replace(run_settings(run, texts), workloads=workloads)


def _picked(settings: RunSettings, wanted: Sequence[Wanted], file: str) -> RunSettings:
    """Those of the file's that were named; all where none was."""
    for each in wanted:
        if not any(each.fits(listed) for listed in settings.workloads):
            raise WrongSettings(f"{each.name} is not among the workloads of {file}")
    chosen = tuple(
        listed
        for listed in settings.workloads
        if not wanted or any(each.fits(listed) for each in wanted)
    )
    if not chosen:
        raise WrongSettings(f"{file} has no workloads: list them at spec.workloads")
    return msgspec.structs.replace(settings, workloads=chosen)


def _settle(problems: Problems) -> None:
    try:
        problems.settle()
    except RotationError as error:
        # Each sentence with the name in front, as a single one has.
        raise WrongSettings(str(error).replace("\n", "\nslackwater: ")) from None
