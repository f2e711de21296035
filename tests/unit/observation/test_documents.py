"""Text as documents: JSON without YAML's parser, YAML where needed, one sentence for neither."""

import subprocess
import sys

import pytest

from slackwater.contract.document import ContractError
from slackwater.observation.documents import documents_in, one_document


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
    with pytest.raises(ContractError) as caught:
        one_document(text, "here")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_several_documents_where_they_may_be() -> None:
    assert documents_in("a: 1\n---\nb: 2\n", "here") == [{"a": 1}, {"b": 2}]


def test_json_does_not_load_yaml() -> None:
    """Two MiB that an agent in a cluster does not need."""
    program = (
        "import sys\n"
        "from slackwater.observation.documents import one_document\n"
        "assert one_document('{\"a\": 1}', 'x') == {'a': 1}\n"
        "assert 'yaml' not in sys.modules\n"
        "one_document('a: 1', 'x')\n"
        "assert 'yaml' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
