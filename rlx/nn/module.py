"""Modules: classes whose fields are their parameters.

Their instances are pytrees.

    class Affine(rlx.nn.Module):
        weight: rlx.Array
        bias: rlx.Array
        scale: float = rlx.nn.field(static=True, default=1.0)

        def __call__(self, x):
            return (x @ self.weight + self.bias) * self.scale

A subclass is a dataclass; an `__init__` that it writes is inherited. Its fields are parameters, or
trees of them, unless they are static: static values belong to the code, and changing one means
compiling anew. An instance cannot be changed once it is made, nor can its arrays; `replace` makes
another.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from abc import ABCMeta
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

import numpy as np
from typing_extensions import dataclass_transform

from ..ir.errors import (
    ArgumentError,
    DtypeError,
    ImmutableError,
    StaticArgumentError,
    with_absent,
)
from ..trace import pytree
from ..trace.arguments import flag
from ..trace.array import Array
from ..trace.index.aliasing import InField, put_in_field, ties_of
from ..trace.tensor import TracedTensor
from .text import html_of, is_module, text_of

# -- what the fields of modules hold: arrays that nobody assigns to --------------------------------
#
# A module that is made takes array objects of its own, so an assignment to those of the user
# leaves it as it is. Those that a structure is filled with (results of compiled functions,
# `tree.map`) it keeps. All are marked where they come out: an assignment to one is an error that
# names the field.


ARRAYS = (Array, TracedTensor)
UNDER_CONSTRUCTION = "_is_under_construction"


@final
class HeldField:
    """The attribute of a field with parameters: gives them marked.

    While a module is made they are not; then it may assign to them. `default` is empty, or holds
    the one value of the class.
    """

    __slots__ = ("_field", "_name", "default")

    def __init__(self, module: str, name: str, default: tuple[Any, ...]) -> None:
        self._field = InField(module, name, True)
        self._name, self.default = name, default

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self._of_class()
        values = module.__dict__
        try:
            value = values[self._name]
        except KeyError:
            return self._of_class(type(module).__name__)
        if type(value) is Array:  # most are, and marked
            ties = getattr(value, "_ties", None)
            if ties is not None and ties.field is not None:
                return value
        return value if UNDER_CONSTRUCTION in values else self.held(value)

    def __set__(self, module: Any, value: Any) -> None:
        vars(module)[self._name] = value

    def _of_class(self, of: str = "") -> Any:
        if not self.default:
            what = f"{of!r} object" if of else f"the class {self._field.module}"
            raise AttributeError(f"{what} has no attribute {self._name!r}")
        return self.default[0]

    def held(self, value: Any) -> Any:
        """The value, its arrays marked."""
        kind = type(value)
        if kind is Array or kind is TracedTensor:  # both are final
            put_in_field(value, self._field)
        elif not is_module(value):
            for leaf in pytree.leaves(value, is_leaf=is_module):
                if isinstance(leaf, ARRAYS):
                    put_in_field(leaf, self._field._replace(is_all=False))
        return value

    def own(self, value: Any) -> Any:
        """The value with array objects of its own; they share memory."""
        if is_module(value):
            return value
        leaves = pytree.leaves(value, is_leaf=is_module)
        if not any(_own(leaf) is not leaf for leaf in leaves):
            return self.held(value)
        return self.held(pytree.map(_own, value, is_leaf=is_module))


def _own(x: Any) -> Any:
    ties = ties_of(x)
    if isinstance(x, np.ndarray) and x.flags.writeable:
        x = x.copy()
        x.flags.writeable = False
        return x
    if not isinstance(x, ARRAYS) or (ties is not None and ties.field is not None):
        return x
    if isinstance(x, TracedTensor):
        return TracedTensor(x.value, x.weak)
    return x.copy()


Made = TypeVar("Made", bound="Module")
PARAMETERS = (Array, TracedTensor, np.ndarray, np.generic, bool, int, float, complex)


def field(*, static: bool = False, state: bool = False, **options: Any) -> Any:
    """Describe a field of a module, as `dataclasses.field` does.

    It takes the `options` of that and returns what it does. A `static` field holds no arrays, but
    what belongs to the code. One of `state` holds arrays that are not trained, such as running
    means: their gradient is zero, and optimizers pass them by. Both at once are an `ArgumentError`.

    >>> class Counter(Module):
    ...     count: Array = field(state=True)
    >>> Counter(3)
    Counter(count=3)
    """
    static, state = flag("field: static", static), flag("field: state", state)
    if static and state:
        raise ArgumentError(
            "a field is static, or it is state, not both",
            fix="drop static=True for arrays, or state=True for anything else",
        )
    metadata = {**options.pop("metadata", {}), "static": static, "state": state}
    return dataclasses.field(metadata=metadata, **options)


def _make(cls: type[Made], values: dict[str, Any]) -> Made:
    made = object.__new__(cls)
    vars(made).update(values)
    return made


def _register(cls: type) -> None:
    fields = dataclasses.fields(cls)
    static = tuple(f.name for f in fields if f.metadata.get("static"))
    names = tuple(f.name for f in fields if f.name not in static)
    state = tuple(f.name for f in fields if f.metadata.get("state"))
    held = [(name, _held(cls, name)) for name in names]

    def flatten(module: Any) -> tuple[tuple, tuple, tuple]:
        values = vars(module)
        return (
            tuple([hold(values[name]) for name, hold in held]),
            tuple([pytree.Static(values[name]) for name in static]),
            names,
        )

    def unflatten(fixed: Any, children: Sequence[Any]) -> Any:
        given = (hold(x) for (_, hold), x in zip(held, children, strict=True))
        values = (*given, *(x.value for x in fixed))
        return _make(cls, dict(zip(names + static, values, strict=True)))

    pytree.register_class(cls, flatten, unflatten, pytree.Fields(names, static, _make, state))


def _held(cls: type, name: str) -> Callable[[Any], Any]:
    """Give the class the attribute of a field; what marks the arrays in it."""
    found = inspect.getattr_static(cls, name, dataclasses.MISSING)
    default = () if found is dataclasses.MISSING else (found,)
    made = HeldField(cls.__name__, name, found.default if isinstance(found, HeldField) else default)
    if not isinstance(found, property):
        setattr(cls, name, made)
    return made.held


@dataclass_transform(field_specifiers=(dataclasses.field, field))
class ModuleType(ABCMeta):
    """The class of module classes: makes them dataclasses and pytrees."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        if "__init__" in namespace:
            namespace = {**namespace, "_writes_init": True}  # as those below it do then
        made = super().__new__(cls, name, bases, namespace, **options)
        made = dataclasses.dataclass(
            init=not getattr(made, "_writes_init", False), repr=False, eq=False, match_args=False
        )(made)
        _register(made)
        return made

    if not TYPE_CHECKING:  # type checkers read `__init__`

        def __call__(cls, *args: Any, **keywords: Any) -> Any:
            made: Any = object.__new__(cls)
            object.__setattr__(made, UNDER_CONSTRUCTION, True)
            try:
                made.__init__(*args, **keywords)
            except TypeError:
                _check_keywords(cls, keywords)
                _check_missing(cls, args, keywords)
                raise
            object.__delattr__(made, UNDER_CONSTRUCTION)
            _check(made)
            _own_arrays(made, _names(cls))
            return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """The parameters of `__init__`, for editors and `help`."""
        given = inspect.signature(cls.__init__)
        return given.replace(parameters=[*given.parameters.values()][1:], return_annotation=cls)


class Module(metaclass=ModuleType):
    """The base class of modules: an immutable pytree whose fields are parameters."""

    def replace(self: Made, **changes: Any) -> Made:
        """Copy the module with other values in some fields.

        `changes` are the new values by name; returns the copy. A name that is no field is an
        `ArgumentError`.
        """
        names = [f.name for f in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                raise ArgumentError(
                    f"{type(self).__name__} has no field {name!r}",
                    fix=f"its fields are {', '.join(names)}",
                )
        made = _make(type(self), {**vars(self), **changes})
        _own_arrays(made, [name for name in _names(type(self)) if name in changes])
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        advice = "" if _is_declared(self, name) else _how_to_declare(self, name, value)
        if UNDER_CONSTRUCTION not in vars(self):
            raise _immutable(self, name, advice)
        if advice:
            raise ArgumentError(
                f"{type(self).__name__}.{name} is set, but it is no field",
                fix=advice,
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise _immutable(self, name)

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


with_absent(
    Module,
    {
        "parameters": "a module is a tree of its arrays: rlx.tree.leaves(model)",
        "named_parameters": "rlx.tree.leaves_with_path(model) has the arrays by path",
        "state_dict": "rlx.save(path, model) writes its arrays by name",
        "load_state_dict": "model = rlx.load(path, like=model) reads them, PyTorch's files too",
        "train": "nn.inference(model, False) is the model for training",
        "eval": "nn.inference(model) is the model ready for use",
        "cuda": 'rlx.device_put(model, "cuda") is the model on a device',
        "to": "rlx.device_put(model, device), or to convert it\n"
        'rlx.tree.map(lambda x: x.astype("bfloat16"), model)',
        "zero_grad": "gradients are values that rlx.grad(loss)(model) returns",
        "apply": "a module holds its parameters: call model(x)",
    },
)


def map_modules(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with what a function makes of each module, inner ones first."""

    def is_inner(x: Any) -> bool:
        return isinstance(x, Module) and x is not tree

    parts, structure = pytree.flatten(tree, is_leaf=is_inner)
    inner = [map_modules(change, x) if is_inner(x) else x for x in parts]
    made = pytree.unflatten(structure, inner)
    return change(made) if isinstance(made, Module) else made


def _check_keywords(cls: type, keywords: dict[str, Any]) -> None:
    """Raise an error for a keyword that the class does not take."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    names = [p.name for p in parameters]
    for name in keywords:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1, 0.5)
            guess = f"did you mean {close[0]!r}? " if close else ""
            raise ArgumentError(
                f"{cls.__name__} takes no argument {name!r}",
                fix=f"{guess}its arguments are {', '.join(names)}",
            ) from None


def _check_missing(cls: type, args: Sequence[Any], keywords: dict[str, Any]) -> None:
    """Raise an error for arguments that the class needs and was not given, or not by name."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    given = {p.name for p in by_place[: len(args)]} | keywords.keys()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if len(args) > len(by_place) and not any(p.kind is variable[0] for p in parameters):
        only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        raise ArgumentError(
            f"{cls.__name__} takes {', '.join(p.name for p in by_place) or 'nothing'} by position; "
            f"it was given {len(args)} arguments",
            fix=f"give these by name: {', '.join(only)}" if only else "leave out the others",
        ) from None
    needed = [p for p in parameters if p.default is p.empty and p.kind not in variable]
    names = [p.name for p in needed if p.name not in given]
    if not names:
        return
    written = [*map(_as_written, [p for p in needed if p.name in names])]
    raise ArgumentError(
        f"{cls.__name__} is missing {', '.join(map(repr, names))}",
        fix=f"add {', '.join(written)}: its arguments are {', '.join(p.name for p in parameters)}",
    ) from None


def _as_written(parameter: inspect.Parameter) -> str:
    """How an argument is given: a key as the numbers of one, others as dots."""
    value = "rlx.random.key(0)" if parameter.name == "key" else "..."
    return f"{parameter.name}={value}"


def _names(cls: type) -> tuple[str, ...]:
    """The fields of a class of modules that hold parameters."""
    fields = pytree.fields_of(cls)
    assert fields is not None, "a class of modules is registered"
    return fields.names


def _own_arrays(module: Any, names: Sequence[str]) -> None:
    """Let a module that was just made have array objects of its own in these fields."""
    values = vars(module)
    for name in names:
        field = inspect.getattr_static(type(module), name)
        if isinstance(field, HeldField):
            values[name] = field.own(values[name])


# -- checks of a module just made ---------------------------------------------------------------


def _check(module: Any) -> None:
    for part in dataclasses.fields(module):
        place = f"{type(module).__name__}.{part.name}"
        if part.name not in vars(module):
            vars(module)[part.name] = _default(place, part)
        value = vars(module)[part.name]
        if part.metadata.get("static"):
            _check_static(place, value)
        else:
            _check_parameters(place, value)


def _default(place: str, part: dataclasses.Field[Any]) -> Any:
    """The value of a field that `__init__` left out."""
    if part.default is not dataclasses.MISSING:
        return part.default
    if part.default_factory is not dataclasses.MISSING:
        return part.default_factory()
    raise ArgumentError(
        f"{place} was not set",
        fix=f"write self.{part.name} = ... in __init__, or give the field a default",
    )


def _check_static(place: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise StaticArgumentError(
            f"{place} is static but its {type(value).__name__} cannot be hashed",
            fix="use a tuple instead of a list, or make the field a parameter: drop static=True",
        ) from None
    if isinstance(value, Array | TracedTensor):
        raise StaticArgumentError(
            f"{place} is static but holds an array",
            fix="make the field a parameter: drop static=True",
        )


def _check_parameters(place: str, value: Any) -> None:
    for leaf in pytree.leaves(value):
        if not isinstance(leaf, PARAMETERS):
            raise DtypeError(
                f"{place} holds {leaf!r}, which is no array",
                fix="make the field static: name: type = rlx.nn.field(static=True)",
            )


def _immutable(module: Any, name: str, advice: str = "") -> ImmutableError:
    first = f"{advice}, and " if advice else ""
    return ImmutableError(
        f"modules are immutable: {type(module).__name__}.{name} cannot be changed",
        fix=f"{first}make another one: module = module.replace({name}=...)",
    )


def _is_declared(module: Any, name: str) -> bool:
    """Whether the class says what it means to set the name."""
    is_field = any(part.name == name for part in dataclasses.fields(module))
    return is_field or isinstance(inspect.getattr_static(type(module), name, None), property)


def _how_to_declare(module: Any, name: str, value: Any) -> str:
    """What to write in the class, as transforms keep nothing but fields."""
    is_array = isinstance(value, Array | TracedTensor | np.ndarray)
    kind = "rlx.Array" if is_array else type(value).__name__
    is_tree = not is_array and not pytree.structure(value).is_leaf()
    field = "" if is_array or is_tree else " = rlx.nn.field(static=True)"
    return f"declare it in the class {type(module).__name__}: {name}: {kind}{field}"
