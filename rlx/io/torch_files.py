"""PyTorch's files, read without running them.

`torch.save` writes a pickle, a program that can call any function of Python. What is here knows
the few instructions that tensors, containers, numbers and texts need, calls nothing, and refuses
every other instruction and every name that is not in its tables.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from os import PathLike
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..ir.files import naming
from ..ir.types import DTYPES, Type
from .archive import STORED, Archive
from .contents import (
    MOST_AXES,
    ROOM,
    Contents,
    Entry,
    checked_type,
    refuse,
    shown,
)
from .filling import values
from .sources import FileBytes, Source, array_in

FIX = "save the state_dict alone: torch.save(model.state_dict(), path)"
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
PER_NAME, MOST_LEVELS = 512, 100
STORAGES = {
    "BoolStorage": "bool",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
KNOWN = {
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.device",
    "collections.OrderedDict",
}


class Name(str):
    """A name of the tables: of a function or class of PyTorch, which is not called."""


class Storage(NamedTuple):
    """Memory that tensors share: its key in the file, and how many elements it has."""

    key: str
    dtype: np.dtype
    size: int


class View(NamedTuple):
    """A tensor: a part of a storage."""

    storage: Storage
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def load_torch(path: str | PathLike[str]) -> dict[str, Any]:
    """The tensors and numbers of a PyTorch file by dotted name; nothing in it is run.

    Reads what `torch.save(model.state_dict(), path)` writes, or `{"model": state_dict, ...}`, in
    today's format and in that before PyTorch 1.6. Whatever is there beside tensors, containers,
    numbers and texts is a `FileFormatError` that names it. `rlx.load(path, like=...)` fills a model
    with what is in such a file.

    >>> import tempfile, zipfile
    >>> path = tempfile.mkdtemp() + "/state.pt"
    >>> with zipfile.ZipFile(path, "w") as archive:  # as torch.save({"step": 3}, path) does
    ...     archive.writestr("state/data.pkl", b"\\x80\\x02}\\x8c\\x04stepK\\x03s.")
    >>> load_torch(path)
    {'step': 3}
    """
    with naming(path):
        return values(torch_contents(FileBytes(path)), None, None)


def torch_contents(data: Source) -> Contents:
    """The contents of a PyTorch file's bytes: tensors and numbers by dotted names."""
    bytes_of: Callable[[Storage], memoryview]
    if data[:4] == b"PK\3\4":
        root, bytes_of = _of_archive(data)
    else:
        root, bytes_of = _of_stream(data)
    budget = len(data) + ROOM
    leaves = _named(root, budget)
    bytes_of = _once(bytes_of, [leaf for _, leaf in leaves if isinstance(leaf, View)])
    entries: dict[str, Entry] = {}
    first: dict[View, str] = {}
    tied = {}
    for name, leaf in leaves:
        if name in entries:
            refuse(f"two tensors have the name {shown(name)}", FIX)
        if isinstance(leaf, View) and first.setdefault(leaf, name) != name:
            tied[name] = first[leaf]
            entries[name] = entries[first[leaf]]
        elif isinstance(leaf, View):
            entries[name] = _tensor(name, leaf, bytes_of)
        elif isinstance(leaf, bool | int | float):
            if type(leaf) is not int or -(1 << 63) <= leaf < 1 << 64:
                entries[name] = _number(leaf)
    if sum(entries[name].type.nbytes for name in entries.keys() - tied) > budget:
        refuse("the tensors repeat the file's numbers far too often", FIX)
    return Contents(entries, {}, budget, tied)


def _once(
    bytes_of: Callable[[Storage], memoryview], views: list[View]
) -> Callable[[Storage], memoryview]:
    """The same, with the bytes of storages kept in which several tensors lie."""
    uses = Counter(view.storage.key for view in set(views))
    kept: dict[str, memoryview] = {}

    def found(storage: Storage) -> memoryview:
        if storage.key in kept:
            return kept[storage.key]
        data = bytes_of(storage)
        if uses[storage.key] > 1:
            kept[storage.key] = data
        return data

    return found


def _number(x: float) -> Entry:
    array = np.array(x)
    return Entry(Type(array.dtype), lambda: array, type(x))


def _named(root: Any, budget: int) -> list[tuple[str, Any]]:
    """The leaves of nested containers, by dotted names; a budget for hostile ones."""
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any, int]] = [("", root, 0)]
    while waiting:
        name, x, level = waiting.pop()
        budget -= PER_NAME + 4 * len(name)
        if budget < 0 or level > MOST_LEVELS:
            refuse("the containers in the file are nested without end", FIX)
        if isinstance(x, dict):
            rows = list(x.items())
        elif isinstance(x, list) or type(x) is tuple:
            rows = list(enumerate(x))
        else:
            found.append((name, x))
            continue
        budget -= len(rows) * PER_NAME
        waiting += [
            (f"{name}.{key}" if name else str(key), child, level + 1)
            for key, child in reversed(rows)
            if isinstance(key, str | int | float | bool)
        ]
    return found


def _tensor(name: str, view: View, bytes_of: Callable[[Storage], memoryview]) -> Entry:
    """The entry of a tensor, whose elements lie inside of its storage."""
    type_ = checked_type(name, view.dtype, view.shape)
    size = view.storage.size * view.storage.dtype.itemsize // view.dtype.itemsize
    steps = zip(view.shape, view.strides, strict=True)
    last = view.offset + sum((n - 1) * step for n, step in steps)
    if type_.size and not view.offset <= last < size:
        refuse(f"the tensor {shown(name)} lies outside of its storage", FIX)

    def read() -> np.ndarray:
        if not type_.size:
            return np.zeros(type_.shape, type_.dtype)
        whole = array_in(bytes_of(view.storage), 0, Type(view.dtype, (size,)))
        width = view.dtype.itemsize
        strides = [step * width for step in view.strides]
        part = np.ndarray(view.shape, view.dtype, whole, view.offset * width, strides)
        return np.ascontiguousarray(part).reshape(view.shape)

    return Entry(type_, read)


# -- the two forms of files -----------------------------------------------------------------------


def _of_archive(data: Source) -> tuple[Any, Callable[[Storage], memoryview]]:
    """The object and the storages of a zip archive, as PyTorch writes since 1.6."""
    archive = Archive(data)
    main = next((name for name in archive.members if name.endswith("data.pkl")), None)
    if main is None:
        refuse("the archive has no data.pkl: it is no file of torch.save", FIX)
    folder = main.removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in archive.members and bytes(archive.read(order)) != b"little":
        refuse("the file was written on a big-endian machine", "save it on a little-endian one")
    root, _ = Unpickled(archive.read(main), archive.budget).run()

    def bytes_of(storage: Storage) -> memoryview:
        name = f"{folder}data/{storage.key}"
        member, n_bytes = archive.members.get(name), storage.size * storage.dtype.itemsize
        if member is None or member.size < n_bytes or member.method != STORED:
            refuse(f"the storage {shown(storage.key)} is missing, cut off or compressed")
        return archive.read(name)[:n_bytes]

    return root, bytes_of


def _of_stream(data: Source) -> tuple[Any, Callable[[Storage], memoryview]]:
    """The object and the storages of a file as PyTorch wrote before 1.6: five pickles and bytes."""
    place, found = 0, []
    machine = Unpickled(data, len(data) + ROOM)
    for _ in range(5):  # a magic number, the version, the machine, the object, keys of storages
        part, place = machine.run(place)
        if not found and part != LEGACY_MAGIC:
            refuse("this is no file of torch.save: it has no magic number", FIX)
        found.append(part)
    root, keys = found[3:]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        refuse("the file has no list of storages", FIX)
    places: dict[str, tuple[int, int]] = {}
    for key in keys:
        storage = machine.storages.get(key)
        n_bytes = storage.size * storage.dtype.itemsize if storage else -1
        start, place = place + 8, place + 8 + n_bytes
        if storage is None or place > len(data) or key in places:
            refuse(f"the storage {shown(key)} is missing or cut off")
        if int.from_bytes(data[start - 8 : start], "little") != storage.size:
            refuse(f"the storage {shown(key)} has another size than its tensors say")
        places[key] = start, place

    def bytes_of(storage: Storage) -> memoryview:
        start, stop = places.get(storage.key) or refuse(f"storage {shown(storage.key)} is missing")
        return data[start:stop]

    return root, bytes_of


# -- the machine ----------------------------------------------------------------------------------

MARK = object()
PLAIN = {b"N": None, b"\x88": True, b"\x89": False}
NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}  # BININT1, BININT2, BININT, BINFLOAT
# those with a length before their bytes: how long that is, and what the bytes become
TEXTS = {b"\x8c": 1, b"X": 4, b"\x8d": 8, b"U": 1, b"T": 4}  # unicode, then Python 2's texts
BYTES = {b"C": 1, b"B": 4, b"\x8e": 8}
LONGS = {b"\x8a": 1, b"\x8b": 4}
PUTS, GETS = {b"q": 1, b"r": 4}, {b"h": 1, b"j": 4}
TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
STOP = b"."
LIGHT = {*PLAIN, *NUMBERS, *GETS, b"(", b"s", b"u", b"a", b"e"}  # what makes no new containers
LITTLE, MUCH = 40, 160  # bytes that an instruction takes


class Unpickled:
    """What a pickle describes, made of plain containers, `View` and `Storage`."""

    def __init__(self, data: Source, budget: int) -> None:
        self.data, self.place, self.budget = data, 0, budget
        self.storages: dict[str, Storage] = {}
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, place: int = 0) -> tuple[Any, int]:
        """Read from a place on; gives the object and the place behind it."""
        self.place, self.stack, self.memo = place, [], {}
        try:
            while (code := self._take(1)) != STOP:
                self.budget -= LITTLE if code in LIGHT else MUCH
                if self.budget < 0:
                    refuse("the file describes too many objects for its size", FIX)
                self._step(code)
            return self.stack.pop(), self.place
        except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError) as error:
            if hasattr(error, "fix"):
                raise
            refuse(f"the pickle in the file is damaged at byte {self.place}", FIX)

    def _take(self, n: int) -> bytes:
        found = bytes(self.data[self.place : self.place + n])
        if len(found) < n:
            refuse("the pickle in the file is cut off")
        self.place += n
        return found

    def _take_number(self, n: int) -> int:
        return int.from_bytes(self._take(n), "little")

    def _take_line(self) -> str:
        line = bytes(self.data[self.place : self.place + 400]).partition(b"\n")[0]
        self.place += len(line) + 1
        return line.decode()

    def _step(self, code: bytes) -> None:
        push, pop = self.stack.append, self.stack.pop
        if code in PLAIN:
            push(PLAIN[code])
        elif code in NUMBERS:
            form = NUMBERS[code]
            push(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        elif code in TEXTS:
            length = self._take_number(TEXTS[code])
            self.budget -= 8 * length  # a letter takes up to four bytes, twice while it is read
            push(self._take(length).decode("utf-8", "surrogatepass"))
        elif code in BYTES:
            push(self._take(self._take_number(BYTES[code])))
        elif code in LONGS:
            push(int.from_bytes(self._take(self._take_number(LONGS[code])), "little", signed=True))
        elif code in PUTS:
            self.memo[self._take_number(PUTS[code])] = self.stack[-1]
        elif code in GETS:
            push(self.memo[self._take_number(GETS[code])])
        elif code == b"\x94":  # MEMOIZE
            self.memo[len(self.memo)] = self.stack[-1]
        elif code in TUPLES:
            count = TUPLES[code]
            self.stack[-count:] = [tuple([self.stack[i] for i in range(-count, 0)])]
        elif code in (b"c", b"\x93"):  # GLOBAL, STACK_GLOBAL
            last = None if code == b"c" else pop()
            module = self._take_line() if last is None else pop()
            push(_known(f"{module}.{self._take_line() if last is None else last}"))
        elif code == b"Q":  # BINPERSID
            push(self._storage(pop()))
        elif code in (b"R", b"\x81"):  # REDUCE, NEWOBJ
            arguments = pop()
            push(_made(pop(), arguments))
        else:
            self._step_of_containers(code)

    def _step_of_containers(self, code: bytes) -> None:
        push, pop = self.stack.append, self.stack.pop
        if code == b"\x80" or code == b"\x95":  # PROTO, FRAME
            self._take(1 if code == b"\x80" else 8)
        elif code in b"}])":
            push({b"}": dict, b"]": list, b")": tuple}[code]())
        elif code == b"(":
            push(MARK)
        elif code == b"t":
            push(tuple(self._to_mark()))
        elif code == b"0":
            pop()
        elif code in (b"a", b"e"):  # APPEND, APPENDS
            items = [pop()] if code == b"a" else self._to_mark()
            _checked(self.stack[-1], list).extend(items)
        elif code in (b"s", b"u"):  # SETITEM, SETITEMS
            items = [pop(), pop()][::-1] if code == b"s" else self._to_mark()
            keys = map(_checked_key, items[::2])
            _checked(self.stack[-1], dict).update(zip(keys, items[1::2], strict=True))
        elif code == b"b":  # BUILD: the _metadata of a state_dict, which nothing needs
            state = pop()
            _checked(self.stack[-1], dict)
            _checked(state, dict)
        else:
            refuse(f"the pickle in the file has the instruction {code!r}, which rlx refuses", FIX)

    def _to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not MARK:
            at -= 1
            if at < 0:
                raise IndexError
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def _storage(self, given: Any) -> Storage:
        """The storage of a persistent id: ("storage", class, key, device, size)."""
        if type(given) is not tuple or not 5 <= len(given) <= 6:
            raise TypeError
        kind, cls, key, _, size, *more = given
        name = cls.rpartition(".")[2] if isinstance(cls, Name) else ""
        if kind != "storage" or name not in STORAGES or type(key) is not str or any(more):
            refuse("the file names a storage of a kind that rlx does not know", FIX)
        storage = Storage(key, DTYPES[STORAGES[name]], _count(size))
        if self.storages.setdefault(key, storage) != storage:
            refuse(f"the file has two storages with the key {shown(key)}", FIX)
        return storage


def _known(name: str) -> Name:
    """A name that a pickle asks for, if it is in the tables; nothing is imported."""
    module, _, last = name.rpartition(".")
    is_storage = module in ("torch", "torch.storage") and last in STORAGES
    is_dtype = module == "torch" and last in DTYPES
    if is_storage or is_dtype or name in KNOWN:
        return Name(name)
    return _refused(name)


def _refused(name: str) -> NoReturn:
    refuse(f"the file asks for {shown(name)}, which rlx does not run", FIX)


def _made(name: Any, arguments: Any) -> Any:
    """What a call of a function of the tables stands for."""
    if not isinstance(name, Name) or type(arguments) is not tuple:
        raise TypeError
    if name == "collections.OrderedDict" and not arguments:
        return {}
    if name == "torch.Size":
        return _checked(arguments[0], tuple)
    if name == "torch.device":
        return None
    if name == "torch._utils._rebuild_parameter":
        return _checked(arguments[0], View)
    if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"):
        storage, offset, shape, strides = arguments[:4]
        dtype = _checked(storage, Storage).dtype
        if name.endswith("v3"):
            dtype = DTYPES[_checked(arguments[6], Name).removeprefix("torch.")]
        if len(_checked(strides, tuple)) != len(_checked(shape, tuple)) or len(shape) > MOST_AXES:
            raise ValueError
        return View(
            storage, dtype, _count(offset), tuple(map(_count, shape)), tuple(map(_count, strides))
        )
    return _refused(name)


def _checked(x: Any, cls: type) -> Any:
    if type(x) is not cls:
        raise TypeError
    return x


def _checked_key(x: Any) -> Any:
    """A key whose hash and text take no time, however the file nests tuples."""
    if isinstance(x, str | float | None) or (isinstance(x, int) and abs(x) < 1 << 64):
        return x
    raise TypeError


def _count(x: Any) -> int:
    if type(x) is not int or not 0 <= x < 1 << 58:
        raise ValueError
    return x
