"""Copy on write: whoever holds a mapping holds it unchanged."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.errors import UnreachableError
from slackwater.kube.informer import ObjectStore, decode_name


class _Value(msgspec.Struct, frozen=True):
    v: int


def read(raw: msgspec.Raw) -> int:
    value = msgspec.json.decode(raw, type=_Value).v
    if value < 0:
        raise ValueError(f"v is {value}, but must be at least 0")
    return value


def raw(name: str, version: int, value: int) -> msgspec.Raw:
    meta = {"name": name, "namespace": "n", "resourceVersion": str(version)}
    return msgspec.Raw(msgspec.json.encode({"metadata": meta, "v": value}))


def put(store: ObjectStore[int], one: msgspec.Raw) -> bool:
    return store.put(one, decode_name(one))


def listed(store: ObjectStore[int], *objects: msgspec.Raw) -> bool:
    return store.replace([store.read_listed(one) for one in objects])


def test_a_taken_mapping_never_changes() -> None:
    store = ObjectStore(read)
    empty, _ = store.snapshot()
    assert put(store, raw("a", 1, 10))
    one, _ = store.snapshot()
    assert put(store, raw("a", 2, 20))
    assert put(store, raw("b", 3, 30))
    two, _ = store.snapshot()
    assert store.remove("n/a")
    three, _ = store.snapshot()
    assert listed(store, raw("c", 5, 50))
    four, _ = store.snapshot()
    assert [dict(m) for m in (empty, one, two, three, four)] == [
        {},
        {"n/a": 10},
        {"n/a": 20, "n/b": 30},
        {"n/b": 30},
        {"n/c": 50},
    ]


def test_nothing_new_is_the_same_mapping() -> None:
    store = ObjectStore(read)
    put(store, raw("a", 1, 10))
    before, _ = store.snapshot()
    assert not put(store, raw("a", 1, 10))
    assert not store.remove("n/nobody")
    assert not listed(store, raw("a", 1, 10))
    assert store.snapshot()[0] is before


def test_unseen_changes_are_not_copied() -> None:
    """50,000 events between two looks copy nothing."""
    store = ObjectStore(read)
    put(store, raw("a", 1, 10))
    mapping = store._items
    put(store, raw("b", 2, 20))
    assert store._items is mapping
    store.snapshot()
    put(store, raw("c", 3, 30))
    assert store._items is not mapping


def test_an_object_without_a_version_is_always_read() -> None:
    store = ObjectStore(read)
    bare = msgspec.Raw(b'{"metadata":{"name":"a"},"v":1}')
    changed = msgspec.Raw(b'{"metadata":{"name":"a"},"v":2}')
    assert put(store, bare)
    assert put(store, changed)
    assert store.snapshot()[0] == {"a": 2}
    assert listed(store, bare)
    assert store.snapshot()[0] == {"a": 1}


def test_what_cannot_be_read_keeps_its_last_value_in_a_list_too() -> None:
    store = ObjectStore(read)
    listed(store, raw("a", 1, 10), raw("b", 1, -1))
    assert store.snapshot() == ({"n/a": 10}, {"n/b": "v is -1, but must be at least 0"})
    listed(store, raw("a", 2, -5), raw("b", 1, -1))
    items, unreadable = store.snapshot()
    assert items == {"n/a": 10}
    assert set(unreadable) == {"n/a", "n/b"}
    listed(store, raw("a", 3, 30))
    assert store.snapshot() == ({"n/a": 30}, {})


@pytest.mark.parametrize("text", [b"{}", b"[]", b'{"metadata":3}', b'{"metadata":{"name":7}}'])
def test_an_object_without_a_name_is_told(text: bytes) -> None:
    with pytest.raises(UnreachableError, match="an object without a name came"):
        decode_name(msgspec.Raw(text))


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "replace", "take"]),
        st.dictionaries(st.sampled_from("abcd"), st.integers(-1, 3), max_size=4),
    ),
    max_size=30,
)


@given(actions=ACTIONS)
def test_it_is_a_mapping_with_snapshots(actions: list[tuple[str, dict[str, int]]]) -> None:
    """Against a plain model: the items, and every snapshot ever taken."""
    store, model = ObjectStore(read), dict[str, int]()
    there: set[str] = set()
    taken: list[tuple[object, dict[str, int]]] = []
    for version, (action, values) in enumerate(actions, start=1):
        match action:
            case "put":
                for name, value in values.items():
                    put(store, raw(name, version, value))
                    there.add(f"n/{name}")
                    if value >= 0:
                        model[f"n/{name}"] = value
            case "remove":
                for name in values:
                    assert store.remove(f"n/{name}") is (f"n/{name}" in there)
                    there.discard(f"n/{name}")
                    model.pop(f"n/{name}", None)
            case "replace":
                listed(store, *(raw(name, version, value) for name, value in values.items()))
                there = {f"n/{name}" for name in values}
                model = {key: value for key, value in model.items() if key in there}
                model |= {f"n/{name}": value for name, value in values.items() if value >= 0}
            case "take":
                taken.append((store.snapshot()[0], dict(model)))
    assert store.snapshot()[0] == model
    for snapshot, then in taken:
        assert snapshot == then
