"""Label selectors: Kubernetes' meaning, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.document import Field, Spelling
from slackwater.contract.label_selector import LabelSelector, flaw, parse_selector, read_selector
from slackwater.model.problem import InvalidError
from tests.unit.contract.documents import CONFIG_KEYS, shaped

LABELS = {"team": "a", "zone": "", "example.com/pool": "batch"}


def selector(document: object) -> LabelSelector:
    return read_selector(Field("x", "selector", document, Spelling.ANY_CASE))


def expression(key: object, operator: object, values: object = None) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


@pytest.mark.parametrize(
    ("document", "selected"),
    [
        ({}, True),
        ({"matchLabels": {}}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchLabels": {"team": "a", "other": "x"}}, False),
        ({"matchLabels": {"zone": ""}}, True),
        ({"matchLabels": {"zone": None}}, True),
        ({"matchLabels": {"Team": "a"}}, False),
        ({"matchLabels": {"example.com/pool": "batch"}}, True),
        (expression("team", "In", ["a", "b"]), True),
        (expression("team", "In", ["b"]), False),
        (expression("other", "In", ["b"]), False),
        (expression("team", "NotIn", ["a"]), False),
        (expression("team", "NotIn", ["b"]), True),
        (expression("other", "NotIn", ["b"]), True),
        (expression("zone", "Exists"), True),
        (expression("other", "Exists"), False),
        (expression("zone", "Exists", []), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("other", "DoesNotExist"), True),
        ({"matchLabels": {"team": "a"}, **expression("other", "Exists")}, False),
        ({"MATCHLABELS": {"team": "b"}}, False),
        ({"matchexpressions": [{"Key": "team", "OPERATOR": "In", "Values": ["a"]}]}, True),
    ],
)
def test_what_is_selected(document: object, selected: bool) -> None:
    made = selector(document)
    assert flaw(made) is None
    assert made.selects(LABELS) is selected


@pytest.mark.parametrize(
    ("document", "start"),
    [
        (expression("team", "in", ["a"]), "x: selector.matchExpressions[0]: operator is 'in'"),
        (expression("team", None), "x: selector.matchExpressions[0]: operator is ''"),
        (expression("team", "Gt", ["1"]), "x: selector.matchExpressions[0]: operator is 'Gt'"),
        (expression("team", "In"), "x: selector.matchExpressions[0]: values is a list of 0"),
        (expression("team", "NotIn", []), "x: selector.matchExpressions[0]: values is a list of 0"),
        (expression("t", "Exists", ["a"]), "x: selector.matchExpressions[0]: values is a list of"),
        (expression("t", "DoesNotExist", ["a"]), "x: selector.matchExpressions[0]: values is a "),
        (expression(None, "Exists"), "x: selector.matchExpressions[0]: key is ''"),
        (expression("-a", "Exists"), "x: selector.matchExpressions[0]: key is '-a'"),
        (expression("/a", "Exists"), "x: selector.matchExpressions[0]: key is '/a'"),
        (expression("A.com/a", "Exists"), "x: selector.matchExpressions[0]: key is 'A.com/a'"),
        (expression("a/b/c", "Exists"), "x: selector.matchExpressions[0]: key is 'a/b/c'"),
        (expression("a" * 64, "Exists"), "x: selector.matchExpressions[0]: key is 'aaa"),
        (expression("d" * 254 + "/a", "Exists"), "x: selector.matchExpressions[0]: key is 'ddd"),
        (expression("t", "In", ["a b"]), "x: selector.matchExpressions[0]: value is 'a b'"),
        (expression("t", "In", ["a", "-"]), "x: selector.matchExpressions[0]: value is '-'"),
        ({"matchLabels": {"team": "x" * 64}}, "x: selector.matchLabels.team: value is 'xxx"),
        ({"matchLabels": {"a b": "c"}}, "x: selector.matchLabels['a b']: key is 'a b'"),
    ],
)
def test_what_kubernetes_refuses(document: object, start: str) -> None:
    problem = flaw(selector(document))
    assert problem is not None
    assert problem.sentence().startswith(start)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "team=a",
        {"matchLabels": 5},
        {"matchLabels": {"team": 5}},
        {"matchExpressions": {}},
        {"matchExpressions": ["team"]},
        expression(5, "In"),
        expression("team", 5),
        expression("team", "In", "a"),
        expression("team", "In", [1]),
    ],
)
def test_wrong_types(document: object) -> None:
    with pytest.raises(InvalidError, match=r"^x: selector"):
        selector(document)


@given(shaped(CONFIG_KEYS))
def test_any_document_is_a_selector_or_refused(document: object) -> None:
    try:
        made = selector(document)
    except InvalidError:
        return
    made.selects(LABELS)
    problem = flaw(made)
    assert problem is None or problem.sentence().isprintable()


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2"])))
def test_labels_select_themselves_and_more(labels: dict[str, str]) -> None:
    made = selector({"matchLabels": labels})
    assert made.selects(labels)
    assert made.selects({**labels, "d": "3"})


@given(
    st.sampled_from(["a", "b"]),
    st.lists(st.sampled_from(["1", "2"]), min_size=1),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])),
)
def test_opposites(key: str, values: list[str], labels: dict[str, str]) -> None:
    pairs = ((("In", values), ("NotIn", values)), (("Exists", None), ("DoesNotExist", None)))
    for (yes, some), (no, same) in pairs:
        chosen = selector(expression(key, yes, some)).selects(labels)
        assert chosen != selector(expression(key, no, same)).selects(labels)


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
def test_what_a_text_selects(text: str, selects: bool) -> None:
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
