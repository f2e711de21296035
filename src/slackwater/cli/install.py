"""`slackwater install --print`: the plain manifests, the same as the chart's.

Owns what may be chosen without helm: the namespace and the image. Applies nothing itself: kubectl
shows what it changes, and asks with the person's own rights. The definitions are made of the
contract's types; the programs' manifests are written by tools/manifests.py from charts/slackwater,
and these names stand in them as they stand here.
"""

import re

import click

from slackwater import __version__
from slackwater.cli.cluster_options import NAMESPACE, checked, namespace_of
from slackwater.cli.output import WrongSettings

IMAGE = f"slackwater/slackwater:{__version__}"
PROGRAMS = "slackwater.yaml"
_WHAT_TO_DO = (
    "slackwater: this command changes nothing itself; to install, run:\n"
    "  slackwater install --print{choices} | kubectl apply --server-side -f -"
)
#: [HOST[:PORT]/]NAME[:TAG][@sha256:...] (github.com/distribution/reference).
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


def _image_of(_: click.Context, option: click.Parameter, said: str) -> str:
    return checked(_REFERENCE, option, said, "an image's name such as example.com/slackwater:1")


@click.command()
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
    callback=namespace_of,
    envvar="SLACKWATER_NAMESPACE",
    show_envvar=True,
    help="Where the programs are to run. It is made, and labelled for the agent's pods.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    default=IMAGE,
    show_default=True,
    callback=_image_of,
    envvar="SLACKWATER_IMAGE",
    show_envvar=True,
    help="What all programs run from, where your nodes find it.",
)
def install(show: bool, definitions: bool, namespace: str, image: str) -> None:
    """Print plain manifests: definitions, agent, manager, their rights.

    They are the Helm chart's with its default values. For other values use the chart.

    \b
    Examples:
      slackwater install --print | kubectl apply --server-side -f -
      slackwater install --print --definitions | kubectl apply --server-side -f -
      slackwater install --print --image registry.example.com/slackwater:1.0 > slackwater.yaml
      slackwater install --print | kubectl diff --server-side -f -
      slackwater install --print | kubectl delete --ignore-not-found -f -   (all policies, too)

    \b
    Exit codes: 0 printed; 2 wrong usage.
    """
    if not show:
        raise click.exceptions.Exit(_told_what_to_do(definitions, namespace, image))
    click.echo(_definitions() if definitions else manifests(namespace, image), nl=False)


def manifests(namespace: str = NAMESPACE, image: str = IMAGE) -> str:
    """Definitions first. Both names stand in the programs' manifests only where they are meant; a
    test keeps it so."""
    from importlib.resources import files

    programs = (files("slackwater") / "manifests" / PROGRAMS).read_text(encoding="utf-8")
    return _definitions() + programs.replace(NAMESPACE, namespace).replace(IMAGE, image)


def _definitions() -> str:
    import yaml

    from slackwater.contract.crd import manifests as made

    # PyYAML has libyaml's emitter in most builds, and it is ten times as fast.
    fastest = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
    # Every value where it stands: one that stands in two places would be written as an anchor.
    plain = type("Plain", (fastest,), {"ignore_aliases": lambda *_: True})
    texts = (
        yaml.dump(each, Dumper=plain, sort_keys=False, explicit_start=True, allow_unicode=True)
        for each in made().values()
    )
    return "".join(texts)


def _told_what_to_do(definitions: bool, namespace: str, image: str) -> int:
    """With the choices that were made: who copies the line means them."""
    choices = " --definitions" if definitions else ""
    choices += f" --namespace {namespace}" if namespace != NAMESPACE else ""
    choices += f" --image {image}" if image != IMAGE else ""
    click.echo(_WHAT_TO_DO.format(choices=choices), err=True)
    return WrongSettings.exit_code
