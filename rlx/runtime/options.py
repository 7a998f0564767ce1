"""Compile options, with their checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..ir.bind import is_symbolic
from ..ir.body import Call
from ..ir.errors import ArgumentError, StaticArgumentError
from ..ir.files import as_path
from ..ir.graph import Graph
from ..ir.policy import Policy, policy_of
from ..ir.record import fields, record, replace
from ..lower.target import FUSIONS
from .sizes import POW2, Buckets

if TYPE_CHECKING:
    from pathlib import Path

DETERMINISTIC = (None, "batch")
TIERS = ("auto", "fast", "max")


@record
class CompileOptions:
    """The options of one compile; a wrong value is an `ArgumentError`.

    name            what RLX_DEBUG prints and RLX_DUMP writes instead of the graph's own name
    check           whether the graph is verified after every pass; None does as RLX_CHECK says
    donate          names of parameters (`params` means all of its leaves) whose arrays may not be
                    used after a call, so that results can take over their memory
    specialize      whether a graph of symbolic sizes is compiled for each size that it meets
    buckets         {name of a dim: sizes}; it is compiled for the next larger of these instead.
                    "pow2" in place of sizes stands for the powers of two
    deterministic   "batch": the numbers of a row do not depend on how many rows there are
    tier            "fast" compiles quickly, "max" takes long for code that may run faster
    fixed           how many of the last parameters get the same arrays in many calls
    precision       a policy or its name; None takes the session's
    in_shardings    a `NamedSharding` or None for each parameter
    out_shardings   the same for each result
    debug_nans      True: an operation that makes a NaN is an error, whatever the setting says
    dce             False: operations of the graph that nothing needs are computed all the same
    const_fold      False: what depends on constants alone is computed in each call (but on xla,
                    which folds by itself)
    fuse            False: each operation is computed alone; or the kinds of fusion that are wanted:
                    producers, epilogues, kernels, rows, chains. xla and mlx fuse themselves, and
                    know all or nothing
    dump_ir         a directory for the text of each stage, as RLX_DUMP for all compiles
    assert_fused    True: a `FusionError` names operations that could not be fused, and why

    >>> CompileOptions(tier="max", donate="x").donate
    ('x',)
    """

    name: str = ""
    check: bool | None = None
    donate: tuple[str, ...] = ()
    specialize: bool = False
    buckets: Buckets = ()
    deterministic: str | None = None
    tier: str = "auto"
    fixed: int = 0
    precision: Policy | str | None = None
    in_shardings: Any = None
    out_shardings: Any = None
    debug_nans: bool = False
    dce: bool = True
    const_fold: bool = True
    fuse: bool | str | Collection[str] = True
    dump_ir: str | PathLike[str] | None = None
    assert_fused: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise _wrong("name", self.name, 'give a text, as name="step"')
        if self.check is not None and not isinstance(self.check, bool):
            raise _wrong("check", self.check, "give True or False, or None to do as RLX_CHECK says")
        for field in ("specialize", "debug_nans", "dce", "const_fold", "assert_fused"):
            if not isinstance(getattr(self, field), bool):
                raise _wrong(field, getattr(self, field), "give True or False")
        if not _is_one_of(self.tier, TIERS):
            raise _wrong("tier", self.tier, f"give one of {', '.join(TIERS)}")
        if not _is_one_of(self.deterministic, DETERMINISTIC):
            fix = 'give "batch", or leave it out: results never depend on the number of threads'
            raise _wrong("deterministic", self.deterministic, fix)
        if not _is_whole(self.fixed, 0):
            raise _wrong("fixed", self.fixed, "give the number of fixed parameters, 0 or more")
        object.__setattr__(self, "donate", _names("donate", self.donate))
        object.__setattr__(self, "buckets", as_buckets(self.buckets))
        object.__setattr__(self, "fuse", _fusions(self.fuse))
        if self.dump_ir is not None:
            object.__setattr__(self, "dump_ir", str(_folder(self.dump_ir)))
        if self.precision is not None:
            object.__setattr__(self, "precision", policy_of(self.precision))

    @property
    def fusions(self) -> frozenset[str]:
        """The kinds of fusion that are wanted."""
        return frozenset(FUSIONS if self.fuse is True else self.fuse)  # type: ignore[arg-type]

    def check_for(self, graph: Graph) -> None:
        """Raise if they do not go with a `graph`."""
        if self.fixed > len(graph.params):
            raise _wrong(
                "fixed", self.fixed, f"{graph.name} has {len(graph.params)} parameters in all"
            )
        if self.buckets and not is_symbolic(graph.param_types):
            raise no_open_sizes(graph.name, self.buckets)


def options_of(given: CompileOptions | Mapping[str, Any] | None) -> CompileOptions:
    """Options as a user gives them: as they are, a dict of their fields, or none.

    >>> options_of({"tier": "max"}).tier
    'max'
    """
    if isinstance(given, CompileOptions):
        return given
    names = fields(CompileOptions)
    if given is None:
        return CompileOptions()
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"`options` is of type {type(given).__name__}",
            fix='give rlx.CompileOptions(tier="max"), or a dict as {"tier": "max"}',
        )
    for name in given:
        if name not in names:
            import difflib

            near = difflib.get_close_matches(str(name), names, 1)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise ArgumentError(
                f"CompileOptions has no field {name!r}",
                fix=f"{guess}the fields are {', '.join(names)}",
            )
    return CompileOptions(**given)


def both(given: CompileOptions | Mapping[str, Any] | None, named: CompileOptions) -> CompileOptions:
    """Options with those named besides; an `ArgumentError` for one that is in both.

    >>> both({"fuse": False}, CompileOptions(tier="max")).tier
    'max'
    """
    options, usual = options_of(given), CompileOptions()
    names = [n for n in fields(CompileOptions) if getattr(named, n) != getattr(usual, n)]
    for name in names:
        if getattr(options, name) not in (getattr(usual, name), getattr(named, name)):
            raise ArgumentError(
                f"{name} is given twice, in `options` and by its name", fix="give it once"
            )
    return replace(options, **{name: getattr(named, name) for name in names}) if names else options


def _is_one_of(given: Any, texts: Sequence[str | None]) -> bool:
    """Whether it is one of some texts; an array, whose comparison is another, is not."""
    return (given is None or isinstance(given, str)) and given in texts


def as_buckets(given: Mapping[str, Sequence[int] | str] | Buckets | None) -> Buckets:
    """The buckets of dims by name, checked; the sizes of each dim go up.

    >>> as_buckets({"seq": (128, 64), "rows": "pow2"})
    (('rows', 'pow2'), ('seq', (64, 128)))
    """
    fix = 'map names of dims to sizes, as {"seq": (64, 128, 256)}, or to "pow2"'
    if isinstance(given, tuple) and all(map(_is_pair, given)):
        given = dict(given)
    if given is None or (isinstance(given, tuple) and not given):
        return ()
    is_mapping = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
    if not is_mapping or not all(map(_is_row, dict(given).values())):
        raise StaticArgumentError(f"`buckets` is {given!r}", fix=fix)
    rows: list[tuple[str, Any]] = sorted(dict(given).items())
    return tuple((name, POW2 if row == POW2 else tuple(sorted(row))) for name, row in rows)


def no_open_sizes(name: str, buckets: Buckets) -> ArgumentError:
    """The error for buckets of a function whose sizes are all known."""
    dim = buckets[0][0]
    return ArgumentError(
        f"`buckets` is given for {', '.join(row[0] for row in buckets)}, "
        f"but no size of {name} is left open",
        fix=f'say which axes are open: rlx.jit(f, dynamic={{"x": {{0: {dim!r}}}}}, buckets=...), '
        f"or rlx.spec(({dim!r}, 8)) for Session.compile",
    )


def check_whole(
    owner: str, field: str, given: Any, least: int = 0, most: int | None = None
) -> None:
    """Raise unless a field is a whole number in a range."""
    if not _is_whole(given, least) or (most is not None and given > most):
        raise ArgumentError(
            f"{owner}: {field} is {given!r}",
            fix=f"give a whole number from {least} {'on' if most is None else f'to {most}'}",
        )


def _is_whole(given: Any, least: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 2


def _is_row(sizes: Any) -> bool:
    if isinstance(sizes, str):
        return sizes == POW2
    if not isinstance(sizes, Sequence) or not sizes:
        return False
    return all(_is_whole(n, 1) for n in sizes)


def _names(field: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise _wrong(field, given, f'give names of parameters, as {field}=("x", "params")')
    return tuple(names)


def _fusions(given: Any) -> bool | tuple[str, ...]:
    """The kinds of fusion in order, True for all of them."""
    if isinstance(given, bool):
        return given or ()
    names = (given,) if isinstance(given, str) else given
    is_known = isinstance(names, Collection) and all(_is_one_of(name, FUSIONS) for name in names)
    if not is_known:
        raise _wrong("fuse", given, f"give True, False, or some of {', '.join(FUSIONS)}")
    return len(set(names)) == len(FUSIONS) or tuple(name for name in FUSIONS if name in names)


def _folder(given: Any) -> Path:
    if not isinstance(given, str | PathLike) or not str(given):
        raise _wrong("dump_ir", given, 'give a directory, as dump_ir="stages"')
    return as_path(given)


def _wrong(field: str, given: Any, fix: str) -> ArgumentError:
    return ArgumentError(f"{field} is {given!r}", fix=fix)


def is_invariant(graph: Graph) -> bool:
    """Whether a function in a graph was compiled with `deterministic="batch"`."""
    return any(
        isinstance(node.op.rules.body, Call) and node.attrs.get("deterministic")
        for node in graph.walk()
    )


def as_asked(graph: Graph, options: CompileOptions) -> CompileOptions:
    """The options, batch-invariant if a function in the graph is to be.

    Loops and products are merged across functions, so one part cannot be so alone.
    """
    if options.deterministic or not is_invariant(graph):
        return options
    return replace(options, deterministic="batch")
