"""The identity of functions: a hash of all that tracing depends on.

It is the same in other processes. It covers the function's code and what the code reads:
closures, defaults, globals, attributes, classes, and so on through every function of the user that
it may reach. Functions of rlx and NumPy count by their names, for their files and versions stand
beside this hash. What the walk cannot see through (files, clocks, what C code holds) has no
identity, and is traced in each process.
"""

from __future__ import annotations

import abc
import enum
import functools
import hashlib
import importlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, Protocol

import numpy as np
import optree

from ...trace import pytree
from ...trace.array import Array
from ...trace.operators import Operators
from ...trace.tensor import TracedTensor
from .byte_code import IMPURE_CODES, attributes_read, globals_of, sets_asked

MOST_THINGS, MOST_BYTES = 20_000, 1 << 26  # a walk that meets more gives up
HOUSE = __name__.split(".")[0]
LIBRARIES = (HOUSE, "numpy", "ml_dtypes", "optree")
PURE = (
    "builtins abc cmath collections contextlib copy dataclasses enum fractions functools heapq "
    "itertools math numbers operator re string types typing typing_extensions _functools _operator"
).split()
# what they give, or do, is not told by their arguments
IMPURE = frozenset(
    "__import__ breakpoint compile dir eval exec exit get_type_hints globals hash help id input "
    "locals open print quit vars".split()
)
ATTRIBUTES_BY_NAME = frozenset(
    "getattr hasattr attrgetter methodcaller __dict__ __getattribute__".split()
)
IMPURE_IN_NUMPY = frozenset(
    "DataSource array2string array_repr array_str datetime64 empty empty_like fromfile fromregex "
    "genfromtxt get_printoptions load loadtxt memmap open_memmap random save savetxt savez "
    "savez_compressed".split()
)
IMPURE_IN_HOUSE = frozenset(
    "Checkpoints Tick breakpoint default_device devices doctor explain_device export_coreml "
    "fromfile load load_exported load_torch open process_count process_index register_backend save "
    "savez supports time_ns unregister_backend".split()
)
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_SHOWN = (range, slice, Fraction)  # their text says all
_BASES = (object, abc.ABC, Generic, Protocol)  # of classes, without anything in their instances
_NUMPYS_OBJECTS = frozenset("c_ index_exp mgrid ogrid r_ s_ typecodes sctypeDict".split())
_SHIPPED = {cls: dict(vars(cls)) for cls in (Operators, Array, TracedTensor)}
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_NOT_READ = frozenset(  # of classes; code that asks for it cannot be told
    "__subclasses__ __weakref__ __doc__ __hash__ __annotations__ __annotate__ "
    "__annotate_func__ __annotations_cache__ __firstlineno__ __static_attributes__ "
    "__dataclass_fields__ __dataclass_params__ __abstractmethods__ _abc_impl __parameters__ "
    "__orig_bases__".split()
)
_TOLD = frozenset(("__module__", "__dict__"))


def identity(*things: Any, is_recorded: bool = False) -> tuple[str, list[Array]]:
    """Hash functions and values as 32 hexadecimal digits.

    Also gives the arrays that were met on the way. Raises a LookupError if functions depend on what
    cannot be hashed, such as results of earlier calls that a function keeps: once `is_recorded`
    these may be there.

    >>> identity(lambda x: x + 1) == identity(lambda x: x + 1)
    True
    >>> identity(lambda x: x + 1) == identity(lambda x: x + 2)
    False
    """
    walk = walked(things, is_recorded)
    return walk.digest.hexdigest(), walk.arrays


def walked(things: Any, is_recorded: bool = False) -> Walk:
    """Walk through functions and values, as `identity` does."""
    walk = Walk(is_recorded)
    try:
        walk.visit_settings()
        walk.visit(things)
        walk.visit_modules()
    except RecursionError:
        raise LookupError("it depends on things nested too deeply") from None
    return walk


class Walk:
    """A walk through things, which feeds a hash with their contents."""

    def __init__(self, is_recorded: bool) -> None:
        self.is_recorded = is_recorded
        self.digest = hashlib.blake2b(digest_size=16)
        self.arrays: list[Array] = []
        self.bytes = 0
        self.met: dict[int, tuple[int, Any]] = {}  # with the thing, so that its id stays its own
        self.names: set[str] = set()  # all that code asks for: globals and attributes
        self.modules: list[Any] = []

    def tell(self, *words: object) -> None:
        """Feed the hash with words."""
        self.digest.update(repr(words).encode())

    def visit(self, thing: Any) -> None:
        """Feed the hash with a thing, and with what it depends on."""
        if isinstance(thing, PLAIN) and type(thing) in PLAIN:
            self.tell(type(thing).__name__, thing)
            self.names.update(IMPURE_IN_HOUSE & {thing})  # `getattr` may be given it
            return
        before = self.met.get(id(thing))
        if before is not None:
            self.tell("again", before[0])
            return
        if len(self.met) >= MOST_THINGS:
            raise LookupError(f"it depends on more than {MOST_THINGS} things")
        self.met[id(thing)] = len(self.met), thing
        name = _public_name(thing)
        if name:
            self.tell("public", *name)
            self._check_pure(*name)
            self.names.update(ATTRIBUTES_BY_NAME.intersection(name))
            if isinstance(thing, type) and name[0].split(".")[0] == HOUSE:
                self._replaced(thing)
            return
        for kinds, visit in _KINDS:
            if isinstance(thing, kinds):
                visit(self, thing)
                return
        self._instance(thing)

    def visit_all(self, things: Any) -> None:
        """Visit one thing after another."""
        for thing in things:
            self.visit(thing)

    def visit_settings(self) -> None:
        """Visit what any code may use: settings of NumPy, methods of arrays."""
        self.tell("settings", np.geterr(), np.getbufsize())
        self.visit(np.get_printoptions())  # which show in the texts of arrays
        for cls, shipped in _SHIPPED.items():
            for name in sorted(shipped.keys() | vars(cls)):
                value = vars(cls).get(name)
                if value is not shipped.get(name):
                    self.tell("given to arrays", cls.__name__, name)
                    self.visit(value)

    def visit_modules(self) -> None:
        """Visit what code can have read from modules, by its names."""
        if self.names & ATTRIBUTES_BY_NAME and not all(map(_is_ours, self.modules)):
            raise LookupError("it reads modules' attributes by names that it makes")
        seen: set[tuple[int, str]] = set()
        while True:
            names = self.names | {"__getattr__"}
            pairs = [(i, n) for i, m in enumerate(self.modules) for n in sorted(names & _shown(m))]
            new = [pair for pair in pairs if pair not in seen]
            if not new:
                return
            for i, name in new:
                seen.add((i, name))
                module = self.modules[i]
                value = getattr(module, name)
                if _is_ours(module) and isinstance(value, types.ModuleType) and not _is_ours(value):
                    continue  # what our files import
                self.tell("of module", i, name)
                self.visit(value)

    # -- one kind of thing each ------------------------------------------------------------------

    def _sequence(self, thing: Any) -> None:
        self.tell(len(thing))
        self._typed(thing, (tuple, list))
        self.visit_all(tuple.__iter__(thing) if isinstance(thing, tuple) else list.__iter__(thing))

    def _mapping(self, thing: dict) -> None:
        self.tell(len(thing))
        self._typed(thing, (dict,))
        for key, value in dict.items(thing):
            self.visit(key)
            self.visit(value)

    def _set(self, thing: Any) -> None:
        self._typed(thing, (set, frozenset))
        if not all(type(x) in PLAIN for x in thing):
            raise LookupError("it depends on the order of a set")
        self.tell([(type(x).__name__, x) for x in thing])  # that of texts differs each time

    def _typed(self, thing: Any, plain: tuple[type, ...]) -> None:
        """Feed the hash with a type; one of the user's may have attributes of its own."""
        if type(thing) in plain:
            self.tell(type(thing).__name__)
        else:
            self._instance(thing, plain)

    def _array(self, thing: Any) -> None:
        is_scalar = isinstance(thing, np.generic) and _is_known(type(thing).__module__)
        if type(thing) not in (Array, np.ndarray) and not is_scalar:  # one may hold more
            raise LookupError(f"it depends on a {type(thing).__qualname__}")
        array = np.asarray(thing)
        if isinstance(thing, Array):
            self.tell(thing.device)
            self.arrays.append(thing)
        self.bytes += array.nbytes
        if array.dtype.hasobject or self.bytes > MOST_BYTES:
            raise LookupError(f"it depends on arrays of objects or more than {MOST_BYTES} bytes")
        self.tell(type(thing).__name__, array.dtype, array.shape, array.strides)
        self.digest.update(np.ascontiguousarray(array).tobytes())

    def _method(self, thing: Any) -> None:
        self.tell("method")
        self.visit_all((thing.__func__, thing.__self__))

    def _builtin(self, thing: Any) -> None:
        owner = thing.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            raise LookupError(f"it uses {thing.__module__}.{thing.__qualname__}")
        self.tell("builtin", thing.__name__)
        self.visit(owner)

    def _partial(self, thing: functools.partial) -> None:
        self.tell("partial")
        self.visit_all((thing.func, thing.args, thing.keywords, vars(thing)))

    def _wrapper(self, thing: Any) -> None:
        self.tell(type(thing).__name__)
        self.visit(thing.__func__)

    def _property(self, thing: property) -> None:
        self.tell("property")
        self.visit_all((thing.fget, thing.fset))

    def _cached_property(self, thing: functools.cached_property) -> None:
        self.tell("cached_property")
        self.visit(thing.func)

    def _dtype(self, thing: np.dtype) -> None:
        self.tell("dtype", thing)

    def _shown(self, thing: Any) -> None:
        self.tell(type(thing).__name__, repr(thing))

    def _cached(self, thing: Any) -> None:
        if thing.cache_info().currsize and not self.is_recorded:
            raise LookupError(f"{thing.__qualname__} keeps results of earlier calls")
        self.tell("cached")
        self.visit(vars(thing))

    def _module(self, thing: types.ModuleType) -> None:
        name = thing.__name__
        self.tell("module", name)
        if name == "builtins" or name.split(".")[0] == "numpy":
            raise LookupError(f"it passes the module {name} around")
        if sys.modules.get(name) is thing and _is_known(name):
            if _is_ours(thing):
                self.modules.append(thing)
            return
        if type(thing) is not types.ModuleType:
            raise LookupError(f"it uses the module {name}, which computes its attributes")
        self.modules.append(thing)

    def _code(self, code: types.CodeType) -> None:
        if IMPURE_CODES & set(code.co_code[::2]):
            raise LookupError(f"{code.co_qualname} imports, or changes a global")
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        self.tell(code.co_code, counts, code.co_exceptiontable)
        self.tell(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.names.update(code.co_names)
        hidden = _NOT_READ & set(attributes_read(code))
        if hidden:
            raise LookupError(f"{code.co_qualname} reads {min(hidden)}")
        asked = sets_asked(code)
        for i, constant in enumerate(code.co_consts):
            if i in asked:
                self.tell("one of", sorted(map(repr, constant)))
            else:
                self.visit(constant)

    def _function(self, fn: types.FunctionType) -> None:
        module = fn.__globals__.get("__name__", "")
        file = getattr(sys.modules.get(module), "__file__", None)
        cells = [cell for cell in fn.__closure__ or () if _is_filled(cell)]
        if _is_known(module) and fn.__code__.co_filename == file:  # not made of text by it
            self.tell("function of", module, fn.__code__.co_qualname, fn.__code__.co_firstlineno)
        else:
            self.tell("function", fn.__name__, fn.__qualname__, fn.__doc__)
            self.visit(fn.__code__)
            for name, attributes, value in globals_of(fn):
                self.tell("global", name)
                if value is np and attributes:
                    self._of_numpy(attributes)
                    continue
                self.visit(value)
                if isinstance(value, types.ModuleType) and attributes[:1]:
                    self.visit(_attribute(value, attributes[0]))
        self.visit_all((fn.__defaults__, fn.__kwdefaults__, len(cells)))
        self.visit_all(cell.cell_contents for cell in cells)
        self.visit(fn.__dict__)

    def _of_numpy(self, attributes: tuple[str, ...]) -> None:
        """The things of NumPy that code reads, by attribute paths."""
        thing: Any = np
        for attribute in attributes:
            if isinstance(thing, types.ModuleType):
                self._check_pure("numpy", attribute)
                thing = getattr(thing, attribute, None)
        self.tell("numpy")
        if not attributes or attributes[0] not in _NUMPYS_OBJECTS:  # it may be the user's own
            self.visit(thing)

    def _class(self, cls: type) -> None:
        self.tell("class", cls.__module__, cls.__qualname__)
        if cls.__module__.split(".")[0] == HOUSE:
            return
        # one of a known module would be public, and is made by the user with its help
        if _is_known(cls.__module__) or not _is_python(cls.__module__):
            raise LookupError(f"it uses {cls.__module__}.{cls.__qualname__}")
        self.visit_all((type(cls), cls.__bases__))
        registered = optree.register_pytree_node.get(cls, namespace=pytree.NAMESPACE)
        if registered is not None:
            self.visit_all((registered.flatten_func, registered.unflatten_func))
        for field in vars(cls).get("__dataclass_fields__", {}).values():
            self.tell(field.name, str(field.type), field.init, field.kw_only)
            self.visit(dict(field.metadata))
        if "_abc_impl" in vars(cls) and vars(abc)["_get_dump"](cls)[0]:
            raise LookupError(f"classes were registered with {cls.__qualname__}")
        for name, value in vars(cls).items():
            if name not in _NOT_READ | _TOLD and not isinstance(value, _SLOTS):
                self.tell("attribute", name)
                self.visit(value)

    def _replaced(self, cls: type) -> None:
        """Methods of a class of rlx that the user replaced."""
        for name, value in vars(cls).items():
            fn = getattr(value, "__func__", value)
            fn = fn.fget if isinstance(fn, property) else fn
            if isinstance(fn, types.FunctionType) and not _is_known(str(fn.__module__)):
                self.tell("replaced", name)
                self.visit(value)

    def _enum(self, thing: enum.Enum) -> None:
        self.tell("member", thing.name)
        self.visit_all((type(thing), vars(thing)))

    def _instance(self, thing: Any, plain: tuple[type, ...] = ()) -> None:
        cls = type(thing)
        self.visit(cls)
        if hasattr(cls, "identity_parts"):
            self.visit(thing.identity_parts)
            return
        for base in cls.__mro__:
            is_seen = base in (*_BASES, *plain) or base.__module__.split(".")[0] == HOUSE
            if not is_seen and (_is_known(base.__module__) or not _is_python(base.__module__)):
                raise LookupError(f"it depends on a {base.__module__}.{base.__qualname__}")
        self.visit(dict(getattr(thing, "__dict__", {})))
        for name, slot in _slots(cls):
            try:
                value = slot.__get__(thing)
            except AttributeError:  # it is empty
                continue
            self.tell("slot", name)
            self.visit(value)

    def _check_pure(self, module: str, name: str) -> None:
        root = module.split(".")[0]
        known = {"numpy": IMPURE_IN_NUMPY, HOUSE: IMPURE_IN_HOUSE}.get(root, IMPURE)
        places = [] if root == HOUSE else module.split(".")
        if {*places, name} & known:
            raise LookupError(f"it uses {module}.{name}")


Visit = Callable[[Walk, Any], None]
_KINDS: list[tuple[Any, Visit]] = [
    ((Array, np.ndarray, np.generic), Walk._array),
    (enum.Enum, Walk._enum),
    ((tuple, list), Walk._sequence),
    (dict, Walk._mapping),
    ((set, frozenset), Walk._set),
    (types.FunctionType, Walk._function),
    (types.MethodType, Walk._method),
    (types.BuiltinFunctionType, Walk._builtin),
    (functools.partial, Walk._partial),
    ((staticmethod, classmethod), Walk._wrapper),
    (property, Walk._property),
    (functools.cached_property, Walk._cached_property),
    (types.ModuleType, Walk._module),
    (types.CodeType, Walk._code),
    (np.dtype, Walk._dtype),
    (_SHOWN, Walk._shown),
    (functools._lru_cache_wrapper, Walk._cached),
    (type, Walk._class),
]


def _public_name(thing: Any) -> tuple[str, str] | None:
    """The public name of a thing in a known module."""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    if not isinstance(name, str) or isinstance(thing, types.ModuleType):
        return None
    module = getattr(thing, "__module__", None)
    module = "numpy" if isinstance(thing, np.ufunc) else module
    if not isinstance(module, str) or not _is_known(module):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is thing else None


@functools.cache
def _is_known(module: str) -> bool:
    """Whether a module is of rlx, a library it builds on, or Python's pure library."""
    root = module.split(".")[0]
    if root not in LIBRARIES and root not in PURE:
        return False
    origin = getattr(sys.modules.get(root) or importlib.import_module(root), "__file__", None)
    if origin is None:
        return True
    if root in LIBRARIES or root == "typing_extensions":
        return True
    return _standard_library() in Path(origin).parents


def _attribute(module: types.ModuleType, name: str) -> Any:
    """What stands in a module under a name, which those of ours may have to load."""
    return getattr(module, name, None) if _is_ours(module) else vars(module).get(name)


def _shown(module: types.ModuleType) -> set[str]:
    """What code can read of a module: of ours, what is loaded when it is asked for, too."""
    if not _is_ours(module):
        return set(vars(module))
    return {*vars(module), *dir(module)} - {"__getattr__"}  # which is in our files


def _is_ours(module: types.ModuleType) -> bool:
    return module.__name__.split(".")[0] == HOUSE


@functools.cache
def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))  # which takes long to make


def _is_python(module: str) -> bool:
    """Whether a module was written in Python."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file.endswith((".py", ".pyc")) if file else module == "__main__"


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _slots(cls: type) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, types.MemberDescriptorType):
                yield name, value
