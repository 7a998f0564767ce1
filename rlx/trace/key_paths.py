"""The path of a leaf in a pytree: a tuple of keys, as JAX gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ..ir.lazy import late
from ..ir.record import record
from .arguments import flag, members, wrong

if TYPE_CHECKING:
    import optree
else:
    optree = late("optree")


@record
class SequenceKey:
    """A place, `idx`, in a list or a tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@record
class DictKey:
    """A `key` of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@record
class GetAttrKey:
    """An attribute, `name`, of an object, or a field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@record
class FlattenedIndexKey:
    """A child, by its number `key`, of an object that was registered without names."""

    key: Any

    def __str__(self) -> str:
        return f"[<flat index {self.key!r}>]"


KeyEntry: TypeAlias = "SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey"
KeyPath: TypeAlias = tuple[KeyEntry, ...]


def key_paths(spec: optree.PyTreeSpec) -> list[KeyPath]:
    """The path of each leaf of a structure."""
    return [tuple(map(_key, accessor)) for accessor in spec.accessors()]


def _key(entry: optree.PyTreeEntry) -> KeyEntry:
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.entry)
    if isinstance(entry, optree.GetAttrEntry):
        return GetAttrKey(entry.entry)
    if isinstance(entry.entry, str):
        return GetAttrKey(entry.entry)
    return FlattenedIndexKey(entry.entry) if isinstance(entry.entry, int) else entry.entry


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['w'][0].bias`, or with `simple` and a `separator` `w/0/bias`.

    `keys` are those of the path, from `tree.flatten_with_path`.

    >>> path = (DictKey("w"), SequenceKey(0), GetAttrKey("bias"))
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['w'][0].bias", 'w/0/bias')
    """
    simple = flag("keystr: simple", simple)
    if not isinstance(separator, str):
        raise wrong("keystr: separator", separator, "a text", 'write separator="/"')
    keys = members("keystr: keys", keys)
    return separator.join(map(key_name if simple else str, keys))


def key_name(key: KeyEntry) -> str:
    """A key as text without what says where it belongs: `w`, `0`, `bias`."""
    if isinstance(key, SequenceKey):
        return str(key.idx)
    return key.name if isinstance(key, GetAttrKey) else str(key.key)
