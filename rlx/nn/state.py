"""State that is not trained: `with_state` gives a model back with its new state.

    logits, model = nn.with_state(model)(images)

A layer calls `update_state(self, mean=...)`, which the innermost `with_state` collects whose model
holds the layer. The rest is functional: the arrays of no module change. So new state that an inner
`with_state` gave back is the caller's, who hands it to the outer one: `update_state(layer, new)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import Any, TypeVar, cast, final

from ..ir.builder import current
from ..ir.errors import ArgumentError, LeakedTracerError, RlxError, StructureError
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.arguments import callable_of, flag
from .module import Module, map_modules

Layer = TypeVar("Layer", bound=Module)
LOST = "call the model through nn.with_state, y, model = nn.with_state(model)(x), or make it\n"
LOST += "ready for use: model = nn.inference(model)"
INSIDE = "call nn.with_state inside of it, and return the updated layer from there (as scan does\n"
INSIDE += "with a carry) for nn.update_state(layer, updated), or use nn.inference(model)"


@final
class _Collector:
    """The new state of the layers of a model, while it is called.

    Layers are told apart by identity: one that is used twice finds its own update.
    """

    def __init__(self, model: Any) -> None:
        self.builder = current()
        self.latest: dict[int, tuple[Module, Module]] = {}  # the first is held for its identity
        self.elsewhere: dict[int, Module] = {}  # layers whose new state an inner `with_state` has

        self.layers = set(map(id, _nodes(model)))

    def rebuilt(self, tree: Any) -> Any:
        """The tree with the latest of each layer."""
        if not self.latest:
            return tree
        parts, spec = pytree.flatten(tree, is_leaf=lambda x: id(x) in self.latest)
        found = [self.latest.get(id(x)) for x in parts]
        rebuilt = [
            x if new is None else self.rebuilt(new[1]) for x, new in zip(parts, found, strict=True)
        ]
        return pytree.unflatten(spec, rebuilt)


_open: ContextVar[tuple[_Collector, ...]] = ContextVar("open", default=())  # the innermost last


def with_state(model: Any, call: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function that returns `(result, model with its new state)`.

    It calls `model(...)`, or `call(model, ...)`, for a method or for a tree of several
    models. It works in `jit`, in a loss whose gradient is taken (with `has_aux`), and in the
    bodies of `scan` and `vmap`.

    Raises an `ArgumentError` for a model that is no function, and for one of which an inner
    `with_state` has new state that was not given to `update_state`.

    >>> import rlx
    >>> from rlx import nn
    >>> model = nn.BatchNorm(2, momentum=0.5)
    >>> y, model = nn.with_state(model)(rlx.array([[0.0, 2.0], [2.0, 4.0]]))
    >>> y.tolist(), model.mean.tolist()
    ([[-0.999..., -0.999...], [0.999..., 0.999...]], [0.5, 1.5])
    """
    if call is None:
        called = callable_of("with_state: the model", model)
    else:
        called = functools.partial(callable_of("with_state: call", call), model)

    def run(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        collector = _Collector(model)
        token = _open.set((*_open.get(), collector))
        try:
            result = called(*args, **kwargs)
        finally:
            _open.reset(token)
        if collector.elsewhere:
            name = type(next(iter(collector.elsewhere.values()))).__name__
            raise ArgumentError(
                f"{name} has new state of a nn.with_state inside of this one, which would lose it",
                fix="hand it over: y, new = nn.with_state(layer)(x); nn.update_state(layer, new);\n"
                "or call the layer itself: y = layer(x)",
            )
        return result, collector.rebuilt(model)

    run.__name__ = f"with_state({type(model).__name__})"
    return run


def latest(layer: Layer) -> Layer:
    """The `layer` with the state that it has so far in the call of `with_state`.

    >>> from rlx import nn
    >>> layer = nn.BatchNorm(2)
    >>> latest(layer) is layer
    True
    """
    collector = _of(layer)
    found = None if collector is None else collector.latest.get(id(layer))
    return layer if found is None else cast(Layer, found[1])  # of the class of the layer


def update_state(layer: Any, updated: Any = None, /, **values: Any) -> None:
    """Give fields of a `layer` new `values`, for the model that `with_state` returns.

    They are fields of `nn.field(state=True)`, and keep their shapes and dtypes. `updated` is the
    same layer, or tree of layers, as an inner `with_state` gave it back: all state in it is taken.
    Raises an `ArgumentError` for what is no state or a layer that no `with_state` holds, and a
    `StructureError` for values of other shapes, dtypes or structure.

    >>> import rlx
    >>> from rlx import nn
    >>> class Counter(nn.Module):
    ...     count: rlx.Array = nn.field(state=True)
    ...     def __call__(self, x):
    ...         nn.update_state(self, count=nn.latest(self).count + 1)
    ...         return x
    >>> _, counter = nn.with_state(Counter(rlx.array(0)))(1.0)
    >>> counter.count.item()
    1
    """
    if updated is not None:
        ours, theirs = "the layer", "the updated one"
        pytree.flatten_like(pytree.flatten(layer)[1], updated, "update_state", (ours, theirs))
        pytree.flatten_like(pytree.flatten(updated)[1], layer, "update_state", (theirs, ours))
        for old, new in zip(_stateful(layer), _stateful(updated), strict=True):
            _update(old, {name: getattr(new, name) for name in _state_of(new)})
            _collector_of(old).elsewhere.pop(id(old), None)
    if values or updated is None:
        _update(layer, values)


def _update(layer: Module, values: dict[str, Any]) -> None:
    check_is_held(layer)
    before = latest(layer)
    for name, value in values.items():
        _check_value(layer, name, getattr(before, name, None), value)
    collector = _collector_of(layer)
    collector.latest[id(layer)] = layer, before.replace(**values)
    for other in _open.get():
        if other is not collector and id(layer) in other.layers:
            other.elsewhere[id(layer)] = layer


def _nodes(tree: Any) -> list[Any]:
    """All modules, containers and leaves of a tree."""
    found: list[Any] = []
    pytree.flatten(tree, is_leaf=lambda x: found.append(x) is not None)
    return found


def _stateful(tree: Any) -> list[Module]:
    """The layers of a tree that have state."""
    return [x for x in _nodes(tree) if isinstance(x, Module) and _state_of(x)]


def _state_of(layer: Module) -> Collection[str]:
    fields = pytree.fields_of(type(layer))
    assert fields is not None, "a class of modules is registered"
    return fields.state


def check_is_held(layer: Module) -> None:
    """Raise an error if new state of a layer would be lost or leak out of a trace."""
    name, collector = type(layer).__name__, _of(layer)
    if collector is None:
        raise _lost(name)
    if collector.builder is not current():
        inner = current()
        assert inner is not None, "the outer one is open"
        raise LeakedTracerError(
            f"{name} has new state in `{inner.graph.name}`, a function that is traced by itself",
            fix=INSIDE,
        )


def _lost(name: str) -> RlxError:
    if not _open.get():
        return ArgumentError(
            f"{name} is in training mode, and its new state would be lost", fix=LOST
        )
    return ArgumentError(
        f"{name} is in training mode, and is no part of the model that nn.with_state was given",
        fix="pass the model that holds it; or, if a function that scan, vmap, checkpoint or jit "
        f"traces\nwas given the layer, {INSIDE}",
    )


def _of(layer: Module) -> _Collector | None:
    """The innermost open collector whose model holds the layer."""
    return next((c for c in reversed(_open.get()) if id(layer) in c.layers), None)


def _collector_of(layer: Module) -> _Collector:
    collector = _of(layer)
    assert collector is not None, "check_is_held was called"
    return collector


def _check_value(layer: Module, name: str, before: Any, after: Any) -> None:
    place, state = f"{type(layer).__name__}.{name}", _state_of(layer)
    if name not in state:
        known = ", ".join(state) or "none"
        raise ArgumentError(
            f"{place} is no state, so it cannot be updated",
            fix=f"declare it: {name}: rlx.Array = rlx.nn.field(state=True); its state is {known}",
        )
    old, spec = pytree.flatten(before)
    sides = "its state", "the new value"
    for x, y in zip(old, pytree.flatten_like(spec, after, place, sides), strict=True):
        wanted, given = operand_type(as_operand(x)), operand_type(as_operand(y))
        if wanted != given:
            raise StructureError(
                f"{place} is {wanted}, and its new value {given}",
                fix=f"give one of the same shape and dtype: .astype({str(wanted.dtype)!r})",
            )


# -- modes -----------------------------------------------------------------------------------------


def inference(model: Any, value: bool = True) -> Any:
    """The model in inference mode: `inference` is `value` in each layer with one.

    Layers that differ in training (`Dropout`, `BatchNorm`) are made for training. `model` may be
    any tree of modules; `inference(model, False)` is for training again.

    >>> from rlx import nn
    >>> inference(nn.Sequential([nn.relu, nn.Dropout(0.5)])).layers[1]
    Dropout(rate=0.5, inference=True, broadcast_dims=())
    """
    value = flag("inference: the value", value)

    def changed(module: Module) -> Module:
        fields = pytree.fields_of(type(module))
        has_mode = fields is not None and "inference" in fields.static
        return module.replace(inference=value) if has_mode else module

    return map_modules(changed, model)
