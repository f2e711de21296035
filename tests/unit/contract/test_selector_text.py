"""Label selectors as kubectl -l takes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.selector_text import parse_selector
from slackwater.model.problem import InvalidError

WEB = {"app": "web", "tier": "a", "example.com/team": "x"}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("", True),
        ("  ", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        (" app=web , tier=a ", True),
        ("app=shop", False),
        ("app=", False),
        ("none=", False),
        ("app!=shop", True),
        ("app != web", False),
        ("absent!=web", True),
        ("app", True),
        ("!app", False),
        ("!absent", True),
        ("! absent", True),
        ("absent", False),
        ("tier in (a,b)", True),
        ("tier in ( a , b )", True),
        ("tier in (b)", False),
        ("tier notin (b,c)", True),
        ("tier notin (a)", False),
        ("absent notin (a)", True),
        ("example.com/team=x,tier in (a),!absent", True),
        ("app=web,tier in (b)", False),
        ("in=x", False),
        ("in in (x)", False),
    ],
)
def test_what_is_selected(text: str, selects: bool) -> None:
    assert parse_selector(text, "selector").selects(WEB) is selects


@pytest.mark.parametrize(
    "text",
    [
        "app=web,",
        ",app=web",
        "app=web tier=a",
        "app=web=x",
        "tier in a",
        "tier in (a",
        "tier in a)",
        "app>1",
        "a b",
        "=web",
        "!",
        "!=x",
        "tier in ((a))",
        "app=web\n--- -",
        "x" * 5000,
    ],
)
def test_what_is_no_selector_is_one_sentence(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_selector(text, "KUBE_LABEL_SELECTOR")
    told = str(caught.value)
    assert told.startswith("KUBE_LABEL_SELECTOR is ")
    assert "but must be a label selector such as app=consumer" in told
    assert "\n" not in told
    assert len(told) < 250


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("-app=web", "S: key is '-app', but must be a label's key such as team or "),
        ("app=-", "S: value is '-', but must be a label's value: at most 63 letters, digits, "),
    ],
)
def test_what_kubernetes_would_refuse_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_selector(text, "S")
    assert str(caught.value).startswith(sentence)


@given(st.text(alphabet="ab=!,() in\t", max_size=24))
def test_any_text_is_a_selector_or_a_sentence(text: str) -> None:
    try:
        assert parse_selector(text, "S").selects({}) in (True, False)
    except InvalidError as error:
        assert str(error).startswith("S")


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True),
                       st.from_regex(r"[a-z0-9]{0,8}", fullmatch=True), min_size=1))  # fmt: skip
def test_labels_select_themselves(labels: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in labels.items())
    selector = parse_selector(text, "S")
    assert selector.selects(labels)
    assert not selector.selects({})
