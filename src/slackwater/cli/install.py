"""`slackwater install --print`: the plain manifests, the same as the chart's.

Only the namespace and the images can be chosen without helm, and an image must be: there is none
under a name that we own. It applies nothing itself: kubectl
shows what it changes, with the user's own permissions. The CRDs are generated from the contract's
types; the programs' manifests are written by tools/manifests.py from charts/slackwater, with the
names below.
"""

import re
from collections.abc import Mapping

import click

from slackwater import __version__
from slackwater.cli.cluster_options import NAMESPACE, check_pattern, parse_namespace
from slackwater.cli.output import WrongSettings
from slackwater.model.problem import Problem

#: What stands in the packaged manifests for the person's own: nobody can own a name below .invalid
#: (RFC 2606), so nobody else's program is ever run by it.
REPOSITORY = "slackwater.invalid/slackwater"
IMAGE = f"{REPOSITORY}:{__version__}"
MANAGER_IMAGE = f"{REPOSITORY}-manager:{__version__}"
PROGRAMS = "slackwater.yaml"
_WHAT_TO_DO = (
    "slackwater: this command changes nothing itself; to install, run:\n"
    "  slackwater install --print{choices} | kubectl apply --server-side -f -"
)
_NO_IMAGE = Problem(
    "--image",
    "missing",
    "the name of an image that you built from this source and that your nodes can pull, such as "
    "registry.example.com/slackwater:1 (docs/install.md); there is no public one",
)
#: [HOST[:PORT]/]NAME[:TAG][@sha256:...] (github.com/distribution/reference).
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


def _image_of(_: click.Context, option: click.Parameter, said: str | None) -> str | None:
    wanted = "an image's name such as example.com/slackwater:1"
    return None if said is None else check_pattern(_REFERENCE, option, said, wanted)


@click.command(short_help="Print plain manifests, the same as the chart's.")
@click.option("--print", "show", is_flag=True, help="Print the manifests on stdout.")
@click.option(
    "--definitions",
    is_flag=True,
    help="Only the definitions of the policy objects: they change no settings of a Helm release.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default=NAMESPACE,
    show_default=True,
    callback=parse_namespace,
    envvar="SLACKWATER_NAMESPACE",
    show_envvar=True,
    help="Where the programs are to run. It is made, and labelled for the agent's pods.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    callback=_image_of,
    envvar="SLACKWATER_IMAGE",
    show_envvar=True,
    help="What all programs but the manager run from, where your nodes find it. Needed, but for "
    "--definitions: there is no public one.",
)
@click.option(
    "--manager-image",
    metavar="IMAGE",
    callback=_image_of,
    envvar="SLACKWATER_MANAGER_IMAGE",
    show_envvar=True,
    help="What the manager runs from: the same, and numpy. Default: --image with -manager at the "
    "end of its name.",
)
def install(
    show: bool, definitions: bool, namespace: str, image: str | None, manager_image: str | None
) -> None:
    """Print plain manifests: definitions, agent, manager, their rights.

    They are the Helm chart's with its default values. For other values use the chart.

    \b
    Examples:
      export SLACKWATER_IMAGE=registry.example.com/slackwater:1.0
      slackwater install --print | kubectl apply --server-side -f -
      slackwater install --print --definitions | kubectl apply --server-side -f -
      slackwater install --print | kubectl diff --server-side -f -
      slackwater install --print | kubectl delete --ignore-not-found -f -   (all policies, too)

    \b
    Exit codes: 0 printed; 2 wrong usage.
    """
    if not show:
        image = image or (None if definitions else "IMAGE")
        chosen = {"--namespace": namespace, "--image": image, "--manager-image": manager_image}
        raise click.exceptions.Exit(_print_instructions(definitions, chosen))
    if definitions:
        click.echo(_definitions(), nl=False)
        return
    if not image:
        raise WrongSettings(_NO_IMAGE.sentence())
    click.echo(manifests(namespace, image, manager_image or _manager_image(image)), nl=False)


def _manager_image(image: str) -> str:
    """Beside the other one, with the same tag; a digest says nothing about it."""
    name, digest, _ = image.partition("@")
    if digest:
        wanted = "named as well where --image has a digest"
        raise WrongSettings(Problem("--manager-image", "missing", wanted).sentence())
    path, slash, last = name.rpartition("/")
    repository, colon, tag = last.partition(":")
    return f"{path}{slash}{repository}-manager{colon}{tag}"


def manifests(
    namespace: str = NAMESPACE, image: str = IMAGE, manager_image: str = MANAGER_IMAGE
) -> str:
    """CRDs first. A test checks that the names occur only where they are meant."""
    from importlib.resources import files

    programs = (files("slackwater") / "manifests" / PROGRAMS).read_text(encoding="utf-8")
    named = programs.replace(NAMESPACE, namespace).replace(IMAGE, image)
    return _definitions() + named.replace(MANAGER_IMAGE, manager_image)


def _definitions() -> str:
    import yaml

    from slackwater.contract.crd import manifests as made

    # Most builds of PyYAML have libyaml's emitter, which is ten times as fast.
    fastest = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
    # No anchors: a value that occurs twice is written twice.
    plain = type("Plain", (fastest,), {"ignore_aliases": lambda *_: True})
    texts = (
        yaml.dump(each, Dumper=plain, sort_keys=False, explicit_start=True, allow_unicode=True)
        for each in made().values()
    )
    return "".join(texts)


def _print_instructions(definitions: bool, chosen: Mapping[str, str | None]) -> int:
    """Repeats the options that were given, so that the line can be copied."""
    choices = " --definitions" if definitions else ""
    for flag, said in chosen.items():
        choices += f" {flag} {said}" if said not in (None, NAMESPACE) else ""
    click.echo(_WHAT_TO_DO.format(choices=choices), err=True)
    return WrongSettings.exit_code
