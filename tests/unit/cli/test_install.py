"""`slackwater install`: plain manifests, with a namespace and an image of the person's own."""

import re
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import IMAGE, MANAGER_IMAGE, manifests
from tests.unit.cli.in_process import run_command
from tools.definitions import texts


def install(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return run_command("install", *arguments, environ=environ)


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def key(each: dict[str, Any]) -> tuple[str, str, str]:
    meta = each["metadata"]
    return each["kind"], meta.get("namespace", ""), meta["name"]


def test_without_print_it_says_what_to_do() -> None:
    done = install()
    assert (done.stdout, done.returncode) == ("", 2)
    said = "slackwater install --print --image IMAGE | kubectl apply --server-side -f -"
    assert said in done.stderr


def test_without_print_the_choices_that_were_made_are_kept() -> None:
    for said in (
        ("--definitions",), ("-n", "mine", "--image", "a"), ("--image", "example.com/s:1"),
        ("--definitions", "--namespace", "mine"),
    ):  # fmt: skip
        done = install(*said)
        assert (done.stdout, done.returncode) == ("", 2)
        kept = " ".join(said).replace("-n ", "--namespace ")
        assert f"  slackwater install --print {kept} | kubectl apply --server-side" in done.stderr


def test_print_is_the_manifests() -> None:
    done = install("--print", "--image", IMAGE)
    assert (done.stdout, done.stderr, done.returncode) == (manifests(), "", 0)


def test_without_an_image_of_ones_own_nothing_is_printed() -> None:
    """Whoever owned the name of a default one would be root on every node."""
    done = install("--print")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "--image is missing, but must be the name of an image that you built" in done.stderr
    done = install("--print", "--image", f"a/b@sha256:{'0' * 64}")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "--manager-image is missing, but must be named as well" in done.stderr


@pytest.mark.parametrize(
    ("image", "managers"),
    [("a", "a-manager"), ("a:5000/b/c", "a:5000/b/c-manager"), ("h:1/a:b", "h:1/a-manager:b")],
)
def test_the_managers_image_is_beside_the_other_one(image: str, managers: str) -> None:
    done = install("--print", "--image", image)
    assert done.stdout == manifests(NAMESPACE, image, managers)


def test_the_definitions_alone() -> None:
    """A Helm release that lacks them keeps its settings and its programs."""
    done = install("--print", "--definitions")
    assert (done.stderr, done.returncode) == ("", 0)
    assert documents(done.stdout) == [yaml.safe_load(text) for text in texts().values()]
    assert manifests().startswith(done.stdout)


def test_definitions_come_first_and_are_the_charts() -> None:
    found = documents(manifests())
    kinds = [each["kind"] for each in found]
    count = kinds.count("CustomResourceDefinition")
    assert kinds[:count] == ["CustomResourceDefinition"] * count
    assert found[:count] == [yaml.safe_load(text) for text in texts().values()]
    assert kinds.index("Namespace") < kinds.index("ServiceAccount")


def test_no_object_is_there_twice() -> None:
    keys = [key(each) for each in documents(manifests())]
    assert len(keys) == len(set(keys)) > 20


def test_both_names_stand_where_they_are_meant() -> None:
    """A text that only looks like the namespace would be replaced as well."""
    programs = manifests().partition("# Source:")[2]
    rows = {row.strip() for row in programs.splitlines() if NAMESPACE in row}
    meant = re.compile(
        rf"(namespace|name): {NAMESPACE}"
        rf"|- \{{kind: ServiceAccount, name: slackwater-\w+, namespace: {NAMESPACE}\}}"
        rf'|expression: request.userInfo.username [!=]= "system:serviceaccount:{NAMESPACE}:.*'
        rf'|\.map\(each, "system:serviceaccount:{NAMESPACE}:slackwater-" \+ each\)'
        rf"|expression: '\[\"{NAMESPACE}\"\]'"
    )
    assert [row for row in rows if not meant.fullmatch(row)] == []
    rows = {row.strip() for row in programs.splitlines() if IMAGE in row}
    assert rows == {f'image: "{IMAGE}"'}
    rows = {row.strip() for row in programs.splitlines() if MANAGER_IMAGE in row}
    assert rows == {f'image: "{MANAGER_IMAGE}"'}


def test_another_namespace_and_image() -> None:
    chosen = ("--image", "example.com:5000/a/b:c", "--manager-image", "example.com:5000/a/m:c")
    found = documents(install("--print", "-n", "night", *chosen).stdout)
    assert {each["metadata"].get("namespace", "night") for each in found} == {"night"}
    [made] = [each for each in found if each["kind"] == "Namespace"]
    assert made["metadata"]["name"] == "night"
    images = {
        container["image"]
        for each in found
        for container in each.get("spec", {})
        .get("template", {})
        .get("spec", {})
        .get("containers", [])
    }
    assert images == {"example.com:5000/a/b:c", "example.com:5000/a/m:c"}


def test_variables_say_the_same() -> None:
    done = install("--print", SLACKWATER_NAMESPACE="night", SLACKWATER_IMAGE="a:b")
    assert done.stdout == manifests("night", "a:b", "a-manager:b")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-n", "Night"), "--namespace is 'Night', but must be a DNS label such as"),
        (("-n", "a.b"), "--namespace is 'a.b', but must be"),
        (("-n", "-a"), "--namespace is '-a', but must be"),
        (("-n", "a" * 64), "but must be a DNS label"),
        (("-n", ""), "--namespace is '', but must be"),
        (("-n", "a\nb"), "but must be a DNS label"),
        (("--image", "a b"), "--image is 'a b', but must be an image's name such as"),
        (("--image", 'a"'), "but must be an image's name"),
        (("--image", "A"), "but must be an image's name"),
        (("--image", "a:"), "but must be an image's name"),
        (("--image", "a@sha256:12"), "but must be an image's name"),
        (("--image", ""), "but must be an image's name"),
    ],
)
def test_a_bad_name_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = install("--print", *arguments)
    assert (done.stdout, done.returncode) == ("", 2)
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "image",
    ["a", "a/b", "a/b:c", "localhost:5000/a", "example.com/a/b:v1.2_3-x", f"a@sha256:{'0' * 64}",
     f"example.com/a:b@sha256:{'f' * 64}"],
)  # fmt: skip
def test_images_that_are_taken(image: str) -> None:
    said = install("--print", "--image", image, "--manager-image", "m").stdout
    assert f'image: "{image}"' in said


@settings(max_examples=20)
@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True))
def test_any_namespace_gives_the_same_objects_elsewhere(namespace: str) -> None:
    """Only names of namespaces differ: as many rows, and the same but for them."""
    one, other = manifests().splitlines(), manifests(namespace).splitlines()
    assert len(one) == len(other)
    differing = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    assert all(a.replace(NAMESPACE, namespace) == b for a, b in differing)
