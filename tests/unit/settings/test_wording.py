"""Texts, lists and pairs: their shapes, and what is not shown of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.settings import rotation_shapes as shapes
from slackwater.settings.wording import (
    Listing,
    Pairs,
    Shape,
    Wording,
    check_listing,
    check_listing_text,
    check_pairs,
    check_pairs_text,
    check_wording,
)

BROKERS = Listing("brokers", shapes.BROKER, "Prose.")
HEADERS = Pairs("headers", shapes.HEADER, shapes.HEADER_VALUE, "Prose.")
MATCHERS = Pairs("matchers", shapes.MATCHER, shapes.MATCHER_VALUE, "Prose.", most=20)
PREFIX = Wording("prefix", "keda-hpa-", shapes.PREFIX, "Prose.", nothing="none")


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (shapes.NAMESPACE, "default"),
        (shapes.NAMESPACE, "a" * 63),
        (shapes.OBJECT, "web.v1"),
        (shapes.KIND, ""),
        (shapes.KIND, "StatefulSet"),
        (shapes.CONTAINER, ""),
        (shapes.CONTAINER, "*"),
        (shapes.CONTAINER, "main-1"),
        (shapes.PREFIX, "keda-hpa-"),
        (shapes.PREFIX, ""),
        (shapes.URL, "http://localhost:9090"),
        (shapes.URL, "https://vm.example.com/select/0/prometheus"),
        (shapes.URL, "http://[::1]:8428"),
        (shapes.URL_OR_NONE, ""),
        (shapes.URL_OR_NONE, "http://vm:8428/api/v1/import/prometheus?extra_label=job=x"),
        (shapes.FILE, "/var/run/secrets/token"),
        (shapes.LABEL, "exported_pod"),
        (shapes.BROKER, "kafka-0.kafka:9092"),
        (shapes.BROKER, "[::1]:65535"),
        (shapes.QUERY, 'sum(kafka_lag{group="web"})'),
        (shapes.TOPIC, "events.v1-raw_2"),
        (shapes.MATCHER, "cluster"),
        (shapes.MATCHER, "_name__"),
        (shapes.MATCHER, "__name__2"),
        (shapes.MATCHER_VALUE, ""),
        (shapes.MATCHER_VALUE, 'a"b\\größe'),
    ],
)
def test_what_fits(shape: Shape, text: str) -> None:
    assert shape.fits(text)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (shapes.NAMESPACE, ""),
        (shapes.NAMESPACE, "a" * 64),
        (shapes.NAMESPACE, "Prod"),
        (shapes.NAMESPACE, "prod\n"),
        (shapes.OBJECT, "web/1"),
        (shapes.OBJECT, "-web"),
        (shapes.KIND, "DaemonSet"),
        (shapes.CONTAINER, "**"),
        (shapes.PREFIX, "(keda)?"),
        (shapes.URL, ""),
        (shapes.URL, "://invalid-url"),
        (shapes.URL, "localhost:9090"),
        (shapes.URL, "http://user:secret@prometheus:9090"),
        (shapes.URL, "http://prometheus:0"),
        (shapes.URL, "http://prometheus:65536"),
        (shapes.URL, "http://prometheus:9090?x=1"),
        (shapes.URL, "file:///etc/passwd"),
        (shapes.FILE, "a\0b"),
        (shapes.LABEL, "pod-name"),
        (shapes.LABEL, ""),
        (shapes.BROKER, "kafka"),
        (shapes.BROKER, "kafka:0"),
        (shapes.BROKER, "kafka:99999"),
        (shapes.QUERY, "a\nb"),
        (shapes.QUERY, "a" * 4097),
        (shapes.TOPIC, "a b"),
        (shapes.MATCHER, ""),
        (shapes.MATCHER, "1a"),
        (shapes.MATCHER, "a-b"),
        (shapes.MATCHER, "a\n"),
        (shapes.MATCHER, "__name__"),
        (shapes.MATCHER_VALUE, "a\nb"),
        (shapes.MATCHER_VALUE, "a\0b"),
        (shapes.HEADER, "X Y"),
        (shapes.HEADER_VALUE, "a\r\nb"),
    ],
)
def test_what_does_not(shape: Shape, text: str) -> None:
    assert not shape.fits(text)


@pytest.mark.parametrize(("said", "read"), [("none", ""), ("", ""), ("x-", "x-")])
def test_a_word_for_nothing(said: str, read: str) -> None:
    assert check_wording(PREFIX, said, "HPA_PREFIX") == read


@pytest.mark.parametrize("value", [1, None, True, [], "A B"])
def test_a_refused_wording_is_one_sentence(value: object) -> None:
    with pytest.raises(InvalidError, match=r"^HPA_PREFIX is .*, but must be the start of a name"):
        check_wording(PREFIX, value, "HPA_PREFIX")


def test_an_address_with_a_password_is_not_shown() -> None:
    address = Wording("endpoint", "", shapes.URL, "Prose.")
    with pytest.raises(InvalidError) as caught:
        check_wording(address, "http://me:secret@prometheus:9090", "PROMETHEUS_ENDPOINT")
    assert str(caught.value) == (
        "PROMETHEUS_ENDPOINT is a text that is not shown, but must be an address such as "
        "http://prometheus:9090, without a user in it"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [("", ()), ("a:1", ("a:1",)), ("a:1, b:2", ("a:1", "b:2"))],
)
def test_lists_as_texts(text: str, found: tuple[str, ...]) -> None:
    assert check_listing_text(BROKERS, text, "x") == found
    assert check_listing(BROKERS, list(found), "x") == found


@pytest.mark.parametrize("text", ["a", "a:1,", ",a:1", "a:1,,b:2", "a:1;b:2"])
def test_refused_lists_as_texts(text: str) -> None:
    with pytest.raises(InvalidError, match=r"KAFKA_BOOTSTRAP_SERVERS is .* but must be a list of"):
        check_listing_text(BROKERS, text, "KAFKA_BOOTSTRAP_SERVERS")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("a:1", "x is 'a:1', but must be a list of brokers such as kafka-0:9092"),
        (["a:1", 2], "x[1] is 2, but must be brokers such as kafka-0:9092"),
        (["a"], "x[0] is 'a', but must be brokers such as kafka-0:9092"),
    ],
)
def test_refused_lists_of_a_file(value: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_listing(BROKERS, value, "x")
    assert str(caught.value) == sentence


def test_pairs_of_a_file_and_as_texts() -> None:
    assert check_pairs(HEADERS, {"X-A": "1", "X-B": "a=b"}, "x") == (("X-A", "1"), ("X-B", "a=b"))
    assert check_pairs_text(HEADERS, "X-A=1, X-B=a=b", "x") == (("X-A", "1"), ("X-B", "a=b"))
    assert check_pairs_text(HEADERS, "", "x") == ()


@pytest.mark.parametrize("text", ["X-A", "=secret", "X A=secret", "X-A=secret,", "X-A=se\ncret"])
def test_refused_pairs_keep_their_secret(text: str) -> None:
    with pytest.raises(InvalidError, match=r"^--h is a text that is not shown, but must be") as no:
        check_pairs_text(HEADERS, text, "--h")
    assert "secret" not in str(no.value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "x is a list, but must be a mapping"),
        ({"X A": "1"}, "a key of x is 'X A', but must be a header's name"),
        ({"X": 1}, "x.X is 1, but must be its value in plain ASCII"),
        ({"X": "se\ncret"}, "x.X is a text that is not shown, but must be"),
    ],
)
def test_refused_pairs_of_a_file(value: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_pairs(HEADERS, value, "x")
    assert str(caught.value).startswith(sentence)


def test_refused_pairs_that_are_no_secret_are_shown() -> None:
    with pytest.raises(InvalidError, match=r"^--m is 'a-b=c', but must be at most 20 pairs of a"):
        check_pairs_text(MATCHERS, "a-b=c", "--m")
    with pytest.raises(InvalidError, match=r"^m.a is 'b\\nc', but must be its value in one line"):
        check_pairs(MATCHERS, {"a": "b\nc"}, "m")


@pytest.mark.parametrize("count", [0, 1, 20])
def test_as_many_pairs_as_are_allowed(count: int) -> None:
    found = tuple((f"l{place}", "x") for place in range(count))
    assert check_pairs(MATCHERS, dict(found), "x") == found
    assert check_pairs_text(MATCHERS, ",".join(f"{k}={v}" for k, v in found), "x") == found


TOO_MANY = {f"l{place}": "x" for place in range(21)}
PAIR_TOO_MANY = (
    "x is 21 pairs, but must be at most 20 pairs of a label's name such as cluster and its value "
    "in one line"
)


def test_a_pair_too_many_in_a_file() -> None:
    with pytest.raises(InvalidError) as caught:
        check_pairs(MATCHERS, TOO_MANY, "x")
    assert str(caught.value) == PAIR_TOO_MANY


def test_a_pair_too_many_as_a_text() -> None:
    with pytest.raises(InvalidError) as caught:
        check_pairs_text(MATCHERS, ",".join(f"{key}=x" for key in TOO_MANY), "x")
    assert str(caught.value) == PAIR_TOO_MANY


@given(st.text(max_size=80))
def test_any_text_is_taken_or_refused_in_one_line(text: str) -> None:
    for attempt in (
        lambda: check_listing_text(BROKERS, text, "x"),
        lambda: check_pairs_text(HEADERS, text, "x"),
        lambda: check_pairs_text(MATCHERS, text, "x"),
        lambda: check_wording(PREFIX, text, "x"),
    ):
        try:
            attempt()
        except InvalidError as error:
            assert "\n" not in str(error)
