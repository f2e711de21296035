"""Text as documents: JSON without YAML's parser, YAML where needed, one sentence for neither."""

import subprocess
import sys

import pytest
import yaml

from slackwater.model.problem import InvalidError
from slackwater.observation.objects.documents import documents_in, one_document


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": [1, null, true]}', {"a": [1, None, True]}),
        ("a: [1, null, true]", {"a": [1, None, True]}),
        ("{a: 1}", {"a": 1}),
        ("# only a comment\na: 1\n", {"a": 1}),
        ('{"a": 1} # a comment', {"a": 1}),
    ],
)
def test_one_document_of_either_kind(text: str, found: object) -> None:
    assert one_document(text, "here") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": tru', "here is '{\"a\": tru', but must be JSON ("),
        ("a: b: c", "here:1 is unreadable, but must be YAML or JSON (the parser says 'mapping"),
        ("a: 1\n---\nb: 2\n", "here is 2 documents, but must be one document"),
        ("", "here is 0 documents, but must be one document"),
        ("!!python/object:os.system x", "here:1 is "),
        ("{" * 5000, "here is "),
    ],
)
def test_neither_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidError) as caught:
        one_document(text, "here")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_several_documents_where_they_may_be() -> None:
    assert documents_in("a: 1\n---\nb: 2\n", "here") == [{"a": 1}, {"b": 2}]
    assert documents_in("---\n---\na: 1\n", "here") == [None, {"a": 1}]


@pytest.mark.parametrize(
    ("text", "key", "line", "first"),
    [
        ("spec: {dryRun: true, dryRun: false}", "dryRun", 1, 1),
        ("a: 1\nb: 2\n\na: 3\n", "a", 4, 1),
        ("a:\n- b: 1\n  'b': 2\n", "b", 3, 2),
        ("a: 1\n---\nb: {c: 1,\n c: 1}\n", "c", 4, 3),
        ("{a: 1, a: 2}", "a", 1, 1),
        ("a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x\n", "<<", 4, 3),
        ("? [a]\n: {b: 1, b: 2}\n", "b", 2, 2),
        ("1: a\n1: b\n", "1", 2, 1),
    ],
)
def test_a_key_that_is_there_twice(text: str, key: str, line: int, first: int) -> None:
    """YAML 1.2 forbids it, and so does kubectl: whoever reads the first one is misled."""
    sentence = (
        f"here:{line}, a key, is '{key}', but must be there once in its mapping (line {first} has "
        "it too)"
    )
    for read in (documents_in, one_document):
        with pytest.raises(InvalidError) as caught:
            read(text, "here")
        if read is documents_in or "---" not in text:
            assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: {x: 1}\nb: {x: 1}\n", {"a": {"x": 1}, "b": {"x": 1}}),
        ("true: 1\n'true': 2\n", {True: 1, "true": 2}),
        (
            "a: &a {x: 0, y: 0}\np: {q: {b: &b {<<: *a, x: 1}}}\nc: {<<: *b, y: 2}\n",
            {
                "a": {"x": 0, "y": 0},
                "p": {"q": {"b": {"x": 1, "y": 0}}},
                "c": {"x": 1, "y": 2},
            },
        ),
    ],
    ids=["in other mappings", "of another type", "over what is merged"],
)
def test_keys_that_are_not_there_twice(text: str, found: object) -> None:
    assert one_document(text, "here") == found


def test_aliases_are_walked_once() -> None:
    """A few bytes of them can be gigabytes of mappings."""
    rows = ["l0: &l0 {a: 1}"]
    rows += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    (found,) = documents_in("\n".join(rows), "here")
    assert isinstance(found, dict)
    assert len(found) == 12


def test_libyaml_s_parser_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wanted(yaml.SafeLoader):
        made = 0

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            Wanted.made += 1

    monkeypatch.setattr(yaml, "CSafeLoader", Wanted)
    assert documents_in("a: 1", "here") == [{"a": 1}]
    assert Wanted.made == 1


def test_json_does_not_load_yaml() -> None:
    """Two MiB that an agent in a cluster does not need."""
    program = (
        "import sys\n"
        "from slackwater.observation.objects.documents import one_document\n"
        "assert one_document('{\"a\": 1}', 'x') == {'a': 1}\n"
        "assert 'yaml' not in sys.modules\n"
        "one_document('a: 1', 'x')\n"
        "assert 'yaml' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
