"""Names of extended resources: with a domain, by Kubernetes' rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.settings.resource_name import ResourceName, check_resource_name
from slackwater.settings.section import checked, checked_text

NAME = ResourceName("a.name", "kubernetes.io/batch-cpu", "A name.")
WANTED = "a domain, a slash and a name, such as example.com/batch-cpu"


@pytest.mark.parametrize(
    "value",
    [
        "kubernetes.io/batch-cpu",
        "gocrane.io/cpu",
        "example/x",
        "a.b-c.d0/Some_Name.1",
        f"{'a' * 253}/x",
        f"a/{'x' * 63}",
    ],
)
def test_names(value: str) -> None:
    assert check_resource_name(NAME, value, "x") == value
    assert checked(NAME, value, "x") == checked_text(NAME, value, "x") == value


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("cpu", "'cpu'"),
        ("", "''"),
        ("/", "'/'"),
        ("/cpu", "'/cpu'"),
        ("example.com/", "'example.com/'"),
        ("a/b/c", "'a/b/c'"),
        ("Example.com/cpu", "'Example.com/cpu'"),
        ("example..com/cpu", "'example..com/cpu'"),
        ("-a/cpu", "'-a/cpu'"),
        ("a/-cpu", "'a/-cpu'"),
        ("a/cpu ", "'a/cpu '"),
        ("a/cpu\n", r"'a/cpu\n'"),
        ("a/ü", "'a/ü'"),
        (5, "5"),
        (True, "true"),
        (None, "missing"),
        (["a/b"], "a list"),
    ],
)
def test_what_is_no_name(value: object, seen: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_resource_name(NAME, value, "x")
    assert str(caught.value) == f"x is {seen}, but must be {WANTED}"


@pytest.mark.parametrize("value", [f"{'a' * 254}/x", f"a/{'x' * 64}"])
def test_names_that_are_too_long(value: str) -> None:
    with pytest.raises(InvalidError, match=", but must be a domain, a slash"):
        checked_text(NAME, value, "--x")


@given(st.text(max_size=20))
def test_only_names_with_a_domain_come_through(text: str) -> None:
    try:
        domain, slash, name = check_resource_name(NAME, text, "x").partition("/")
    except InvalidError as error:
        assert str(error).isprintable()
    else:
        assert domain.isascii()
        assert slash
        assert name.isascii()
