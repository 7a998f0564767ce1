"""Attention to keys and values in pages: see the op `paged_attention`.

Each token and group of heads is computed alone, so nothing depends on the others. Positions are met
in blocks of `BLOCK`, counted from 0: first the scores of a block, a vector of positions at a time,
then their powers, with the greatest so far, then the sums of values, position after position. What
is loaded of a page is used for all heads of the group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...ir.dims import Size, likely, static
from ...ir.record import record
from ...ir.types import NAMES
from ...lower.lir.program import LibraryCall
from .llvm.host import Host
from .llvm.text import Function, Module, Vector
from .loops.kernels import Layout
from .loops.numbers import Numbers
from .loops.scalar import emit_instruction, horizontal
from .loops.scope import memory_vector

BLOCK = 64  # positions whose scores are in memory at a time
LINE, NEAR = 64, 2  # bytes of a line of cache; prefetches go to the second one
NANOSECONDS = 0.02  # of one product


@record(eq=False)
class PagedAttention:
    """The sizes and dtypes of a call."""

    step: LibraryCall
    host: Host
    tokens: Size
    sequences: Size
    table: Size  # pages of a sequence
    pages: Size
    size: int  # places of a page
    groups: int
    heads: int  # of a group
    width: int  # of a query and a key
    depth: int  # of a value
    query: str  # dtypes
    page: str
    wide: str

    @classmethod
    def of(cls, step: LibraryCall, host: Host) -> PagedAttention:
        """Those of a call."""
        q, k_pages, v_pages, tables = step.input_types[:4]
        names = [NAMES[x.dtype] for x in (q, k_pages)]
        heads, groups = static(q.shape[1]), static(k_pages.shape[2])
        return cls(
            step=step,
            host=host,
            tokens=q.shape[0],
            sequences=tables.shape[0],
            table=tables.shape[1],
            pages=k_pages.shape[0],
            size=static(k_pages.shape[1]),
            groups=groups,
            heads=heads // max(groups, 1),
            width=static(q.shape[2]),
            depth=static(v_pages.shape[3]),
            query=names[0],
            page=names[1],
            wide="float64" if "float64" in names else "float32",
        )

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes that the time grows with."""
        return (self.tokens, self.table)

    @property
    def cost(self) -> float:
        """Rough nanoseconds on one thread, where sequences fill half of their tables."""
        sums = self.size * self.groups * self.heads * (self.width + self.depth)
        return NANOSECONDS * likely(self.tokens) * likely(self.table) * sums / 2

    @property
    def scratch_bytes(self) -> int:
        """None: a thread has on its stack what it needs."""
        return 0

    def emit(self, module: Module, f: Function, layout: Layout, is_shared: bool) -> None:
        """Emit the attention of all tokens, or of those of a part."""
        if 0 in (self.groups, self.heads, self.depth, self.tokens):
            return
        step = self.step
        pointers = [layout.pointer(f, b) for b in (*step.inputs, *step.outputs)]
        scales = [NAMES[x.dtype] for x in step.input_types[6:7]]
        tokens, whole = f.number(self.tokens), "true"
        if is_shared:  # a token's groups are shared by threads only if there are few tokens
            whole = f.emit(f"icmp uge i64 {tokens}, %parts")
        shares = f.emit(f"select i1 {whole}, i64 1, i64 {self.groups}")
        count = f.emit(f"select i1 {whole}, i64 {self.groups}, i64 1")
        start, stride = ("%part", "%parts") if is_shared else ("0", "1")
        writer = _Writer(f, self, pointers, self.host, *scales)
        with f.loop(start, f.emit(f"mul i64 {tokens}, {shares}"), stride) as loop:
            token = f.emit(f"udiv i64 {loop.index}, {shares}")
            first = f.emit(f"urem i64 {loop.index}, {shares}")
            writer.write(token, first, f.emit(f"add i64 {first}, {count}"))


class _Writer:
    """Writes the code of one token and some groups of heads."""

    def __init__(
        self,
        f: Function,
        problem: PagedAttention,
        pointers: Sequence[str],
        host: Host,
        scale_dtype: str = "float32",
    ) -> None:
        self.f, self.p, self.scale_dtype = f, problem, scale_dtype
        *self.pointers, self.out = pointers
        self.scale: float = problem.step.attrs["scale"]
        self.window: int | None = problem.step.attrs["window"]
        self.soft_cap: float | None = problem.step.attrs["soft_cap"]
        itemsize = np.dtype(problem.wide).itemsize
        self.lanes = host.lanes(itemsize)
        self.align = self.lanes * itemsize  # of a vector
        self.vector = Vector(problem.wide, self.lanes)
        self.numbers = Numbers(f, problem.wide, self.lanes)
        self.chunks = -(-problem.width // self.lanes)  # vectors of a key
        self.parts = -(-problem.depth // self.lanes)  # vectors of a value
        self.run = math.gcd(problem.size, self.lanes)  # positions that lie in one page together
        self.free = max(2, host.vector_registers - 6)  # registers for sums
        heads, kind = problem.heads, self.vector.text
        self.scores = f.reserve(f"[{heads * BLOCK} x {self.vector.element}]", 64)
        # of each group the vectors of queries, sums of values, greatest scores, sums of powers
        self.queries, self.sums = 0, heads * self.chunks
        self.tops = self.sums + heads * self.parts
        self.totals = self.tops + heads
        self.each = self.totals + heads
        self.states = f.reserve(f"[{problem.groups * self.each} x {kind}]", 64)

    # -- a token ---------------------------------------------------------------------------------

    def write(self, token: str, first: str, last: str) -> None:
        """Write the results of a token and the groups from `first` on, before `last`."""
        f = self.f
        self._begin(token)
        with self._each_group(token, first, last):
            self._clear()
            self._load_queries()
        with f.loop(*self._blocks()) as loop:
            base = f.emit(f"mul i64 {loop.index}, {BLOCK}")
            low = self.numbers.extreme("smax", base, self.low)
            high = self.numbers.extreme("smin", f.emit(f"add i64 {base}, {BLOCK}"), self.high)
            with self._each_group(token, first, last):
                self._scores(base, low, high)
                self._powers(base, low, high)
                self._values(base, low, high)
        with self._each_group(token, first, last):
            self._finish()

    @contextmanager
    def _each_group(self, token: str, first: str, last: str) -> Iterator[None]:
        """A loop over groups: what follows is done for `group`."""
        f, p = self.f, self.p
        with f.loop(first, last) as loop:
            self.group = loop.index
            row = f.emit(f"add i64 {f.emit(f'mul i64 {token}, {p.groups}')}, {self.group}")
            self.row = f.emit(f"mul i64 {row}, {p.heads}")
            place = f.emit(f"mul i64 {self.group}, {self.each}")
            self.state = f.offset(self.states, self.vector.text, place)
            yield

    def _clear(self) -> None:
        """Begin the sums of a group."""
        f, zero = self.f, self.f.constant(self.vector, 0)
        for i in range(self.p.heads):
            self._put(self.tops + i, f.constant(self.vector, -math.inf))
            self._put(self.totals + i, zero)
            for c in range(self.parts):
                self._put(self.sums + i * self.parts + c, zero)

    def _begin(self, token: str) -> None:
        """Find the table of the token's sequence, and the positions that it sees."""
        f, p = self.f, self.p
        tables, sequence, positions = self.pointers[3:6]
        self.last_page = f.emit(f"sub i64 {f.number(p.pages)}, 1")
        last = f.emit(f"sub i64 {f.number(p.sequences)}, 1")
        own = self.numbers.clamped(self.numbers.integer(sequence, token), last)
        count = f.number(p.table)
        self.table = f.offset(tables, "i32", f.emit(f"mul i64 {own}, {count}"))
        position = self.numbers.integer(positions, token)
        high = self.numbers.extreme(
            "smin", f.emit(f"add i64 {position}, 1"), f.emit(f"mul i64 {count}, {p.size}")
        )
        sizes = [f.number(p.pages), f.number(p.sequences)]
        for size in sizes:  # without any there is nothing to see
            is_none = f.emit(f"icmp eq i64 {size}, 0")
            high = f.emit(f"select i1 {is_none}, i64 0, i64 {high}")
        self.high = self.numbers.extreme("smax", high, "0")
        self.low = "0"
        if self.window is not None:
            self.low = self.numbers.extreme(
                "smax", f.emit(f"sub i64 {position}, {self.window}"), "0"
            )

    def _blocks(self) -> tuple[str, str]:
        f = self.f
        first = f.emit(f"udiv i64 {self.low}, {BLOCK}")
        return first, f.emit(f"udiv i64 {f.emit(f'add i64 {self.high}, {BLOCK - 1}')}, {BLOCK}")

    def _load_queries(self) -> None:
        f, p = self.f, self.p
        start = f.emit(f"mul i64 {self.row}, {p.width}")
        for i in range(p.heads):
            for c in range(self.chunks):
                place = f.emit(f"add i64 {start}, {i * p.width + c * self.lanes}")
                q = self.numbers.load(
                    self.pointers[0], place, p.query, self.numbers.mask(c, p.width)
                )
                self._put(self.queries + i * self.chunks + c, q)

    def _finish(self) -> None:
        """Divide the sums of values by the sums of powers."""
        f, p, vector = self.f, self.p, self.vector
        start = f.emit(f"mul i64 {self.row}, {p.depth}")
        single = Vector(p.wide)
        for i in range(p.heads):
            total = horizontal(f, "add", vector, self._get(self.totals + i))
            is_none = f.emit(f"fcmp oeq {vector.element} {total}, {f.constant(single, 0)}")
            total = f.select(single, is_none, f.constant(single, 1), total)
            total = f.splat(total, vector)
            for c in range(self.parts):
                x = self._get(self.sums + i * self.parts + c)
                x = f.emit(f"fdiv {vector.text} {x}, {total}")
                place = f.emit(f"add i64 {start}, {i * p.depth + c * self.lanes}")
                self.numbers.store(x, self.out, place, p.query, self.numbers.mask(c, p.depth))

    # -- a block of positions ----------------------------------------------------------------------

    @contextmanager
    def _vectors(self, base: str, low: str, high: str) -> Iterator[str]:
        """A loop over the vectors of positions of a block, by their first ones in it."""
        f, lanes = self.f, self.lanes
        start = f.emit(f"udiv i64 {f.emit(f'sub i64 {low}, {base}')}, {lanes}")
        stop = f.emit(f"sub i64 {high}, {base}")
        with f.loop(f.emit(f"mul i64 {start}, {lanes}"), stop, str(lanes)) as loop:
            yield loop.index

    def _scores(self, base: str, low: str, high: str) -> None:
        f, p, vector = self.f, self.p, self.vector
        steps = ", ".join(f"i64 {i}" for i in range(self.lanes))
        with self._vectors(base, low, high) as at:
            first = f.emit(f"add i64 {base}, {at}")
            rows = self._rows(first, high)
            later = self._rows(f.emit(f"add i64 {first}, {BLOCK}"), self.high)
            places = vector.with_dtype("int64")
            own = f.emit(f"add {places.text} {f.splat(first, places)}, <{steps}>")
            is_low = f.emit(f"icmp sge {places.text} {own}, {f.splat(low, places)}")
            is_high = f.emit(f"icmp slt {places.text} {own}, {f.splat(high, places)}")
            seen = f.emit(f"and {vector.with_dtype('bool').text} {is_low}, {is_high}")
            scale = self._scales(0, rows)
            for start in range(0, p.heads, self.most):
                heads = range(start, min(p.heads, start + self.most))
                for i, x in zip(heads, self._products(rows, later, heads), strict=True):
                    x = f.emit(f"fmul {vector.text} {x}, {f.constant(vector, self.scale)}")
                    if scale:
                        x = f.emit(f"fmul {vector.text} {x}, {scale}")
                    if self.soft_cap is not None:
                        x = self._capped(x, self.soft_cap)
                    x = f.select(vector, seen, x, f.constant(vector, -math.inf))
                    self._put_scores(i, at, x)

    def _ask_for(self, which: int, row: str, chunk: int, width: int) -> None:
        """Prefetch a line of a key (1) or a value (2) that a later block needs."""
        f, itemsize = self.f, np.dtype(memory_vector(self.p.page, 1).dtype).itemsize
        first = chunk * self.lanes * itemsize
        if first % LINE == 0:
            place = f.emit(f"mul i64 {row}, {width * itemsize}")
            start = f.offset(self.pointers[which], "i8", place)
            f.prefetch(f.offset(start, "i8", str(first)), locality=NEAR)

    @property
    def most(self) -> int:
        """How many heads are multiplied by a key at a time."""
        return max(1, self.free // (2 * min(4, self.lanes)))

    def _products(self, rows: Sequence[str], later: Sequence[str], heads: range) -> list[str]:
        """The products of queries with as many keys as a vector has lanes."""
        f, vector, few = self.f, self.vector, min(4, self.lanes)
        parts: list[list[str]] = [[] for _ in heads]
        for start in range(0, self.lanes, few):
            totals = [[""] * few for _ in heads]
            for c in range(self.chunks):
                queries = [self._get(self.queries + i * self.chunks + c) for i in heads]
                for j in range(few):
                    key = self._part(1, rows[start + j], c, self.p.width)
                    if not heads.start:
                        self._ask_for(1, later[start + j], c, self.p.width)
                    for n, q in enumerate(queries):
                        old = totals[n][j]
                        if old:
                            totals[n][j] = f.intrinsic("fma", vector, q, key, old)
                        else:
                            totals[n][j] = f.emit(f"fmul {vector.text} {q}, {key}")
            for n, each in enumerate(totals):
                parts[n] += self._folded(each, 1)
        return [self._folded(each, few)[0] for each in parts]

    def _folded(self, xs: list[str], bit: int) -> list[str]:
        """Add lanes of vectors in pairs: lane i comes from the vector with these bits of i."""
        f, vector = self.f, self.vector
        while len(xs) > 1:
            made = []
            for x, y in zip(xs[::2], xs[1::2], strict=True):
                is_other = [bool(i & bit) for i in range(self.lanes)]
                same = [i + self.lanes * other for i, other in enumerate(is_other)]
                crossed = [(i ^ bit) + self.lanes * other for i, other in enumerate(is_other)]
                pair = [f.shuffle(vector, x, y, places) for places in (same, crossed)]
                made.append(f.emit(f"fadd {vector.text} {pair[0]}, {pair[1]}"))
            xs, bit = made, bit * 2
        return xs

    def _capped(self, x: str, cap: float) -> str:
        f, p, vector = self.f, self.p, self.vector
        x = f.emit(f"fdiv {vector.text} {x}, {f.constant(vector, cap)}")
        x = emit_instruction(f, "tanh", p.wide, self.lanes, p.wide, [x])
        return f.emit(f"fmul {vector.text} {x}, {f.constant(vector, cap)}")

    def _powers(self, base: str, low: str, high: str) -> None:
        """The powers of a block's scores in their place; what came before fades."""
        f, p, vector = self.f, self.p, self.vector
        for i in range(p.heads):
            top = self._get(self.tops + i)
            with self._highest(i, top, base, low, high) as highest:
                new = horizontal(f, "max", vector, highest)
            new = f.splat(new, vector)
            fade = self._power(f.emit(f"fsub {vector.text} {top}, {new}"))
            self._put(self.tops + i, new)
            for c in range(self.parts):
                old = self._get(self.sums + i * self.parts + c)
                self._put(
                    self.sums + i * self.parts + c, f.emit(f"fmul {vector.text} {old}, {fade}")
                )
            total = f.emit(f"fmul {vector.text} {self._get(self.totals + i)}, {fade}")
            self._put(self.totals + i, total)
        with self._vectors(base, low, high) as at:
            rows = self._rows(f.emit(f"add i64 {base}, {at}"), high) if self.has_scales else []
            scale = self._scales(1, rows)
            for i in range(p.heads):
                x = self._get_scores(i, at)
                x = self._power(f.emit(f"fsub {vector.text} {x}, {self._get(self.tops + i)}"))
                total = f.emit(f"fadd {vector.text} {self._get(self.totals + i)}, {x}")
                self._put(self.totals + i, total)
                if scale:
                    x = f.emit(f"fmul {vector.text} {x}, {scale}")
                self._put_scores(i, at, x)

    @contextmanager
    def _highest(self, i: int, top: str, base: str, low: str, high: str) -> Iterator[str]:
        """The greatest scores so far, lane by lane."""
        f, lanes, vector = self.f, self.lanes, self.vector
        start = f.emit(f"udiv i64 {f.emit(f'sub i64 {low}, {base}')}, {lanes}")
        bounds = f.emit(f"mul i64 {start}, {lanes}"), f.emit(f"sub i64 {high}, {base}")
        with f.loop(*bounds, str(lanes), [(vector.text, top)]) as loop:
            x, old = self._get_scores(i, loop.index), loop.values[0]
            is_more = f.emit(f"fcmp ogt {vector.text} {x}, {old}")
            loop.next = [f.select(vector, is_more, x, old)]
        yield loop.values[0]

    def _power(self, x: str) -> str:
        return emit_instruction(self.f, "exp", self.p.wide, self.lanes, self.p.wide, [x])

    def _values(self, base: str, low: str, high: str) -> None:
        """Add the values of a block, weighted by the powers, position after position."""
        p = self.p
        parts = min(self.parts, self.free)
        heads = max(1, self.free // parts)
        for i in range(0, p.heads, heads):
            for c in range(0, self.parts, parts):
                some = range(i, min(p.heads, i + heads)), range(c, min(self.parts, c + parts))
                self._add_values(base, low, high, *some)

    def _add_values(self, base: str, low: str, high: str, heads: range, parts: range) -> None:
        f, vector, run = self.f, self.vector, self.run
        sums = [(i, c) for i in heads for c in parts]
        carried = [(vector.text, self._get(self.sums + i * self.parts + c)) for i, c in sums]
        first = f.emit(f"udiv i64 {low}, {run}")
        stop = f.emit(f"udiv i64 {f.emit(f'add i64 {high}, {run - 1}')}, {run}")
        with f.loop(first, stop, carried=carried) as runs:
            start = f.emit(f"mul i64 {runs.index}, {run}")
            row = self._row(start)
            later = self._row(self._within(f.emit(f"add i64 {start}, {BLOCK}"), self.high))
            bounds = (
                f.emit(f"sub i64 {self.numbers.extreme('smax', start, low)}, {start}"),
                self.numbers.extreme("smin", f.emit(f"sub i64 {high}, {start}"), str(run)),
            )
            inner = [(kind, x) for (kind, _), x in zip(carried, runs.values, strict=True)]
            before = f.emit(f"sub i64 {start}, {base}")
            with f.loop(*bounds, carried=inner) as loop:
                place = f.emit(f"mul i64 {loop.index}, {self.p.groups}")
                ahead = f.emit(f"add i64 {later}, {place}")
                place = f.emit(f"add i64 {row}, {place}")
                for c in parts if not heads.start else ():
                    self._ask_for(2, ahead, c, self.p.depth)
                weights = {i: self._weight(i, before, loop.index) for i in heads}
                values = {c: self._part(2, place, c, self.p.depth) for c in parts}
                loop.next = [
                    f.intrinsic("fma", vector, weights[i], values[c], old)
                    for (i, c), old in zip(sums, loop.values, strict=True)
                ]
            runs.next = loop.values
        for (i, c), x in zip(sums, runs.values, strict=True):
            self._put(self.sums + i * self.parts + c, x)

    def _weight(self, head: int, before: str, at: str) -> str:
        f, element = self.f, self.vector.element
        place = f.emit(f"add i64 {f.emit(f'add i64 {before}, {at}')}, {head * BLOCK}")
        x = f.emit(f"load {element}, ptr {f.offset(self.scores, element, place)}")
        return f.splat(x, self.vector)

    # -- places ------------------------------------------------------------------------------------

    def _row(self, position: str) -> str:
        """The row of a position's key in the pool: its page, its place there, the group."""
        f, p = self.f, self.p
        number = f.emit(f"udiv i64 {position}, {p.size}")
        place = f.emit(f"urem i64 {position}, {p.size}")
        page = self.numbers.clamped(self.numbers.integer(self.table, number), self.last_page)
        row = f.emit(f"add i64 {f.emit(f'mul i64 {page}, {p.size}')}, {place}")
        return f.emit(f"add i64 {f.emit(f'mul i64 {row}, {p.groups}')}, {self.group}")

    def _within(self, position: str, high: str) -> str:
        """The first position of a run, or of that of the last position before `high`."""
        f = self.f
        last = f.emit(f"sub i64 {high}, 1")
        last = f.emit(f"sub i64 {last}, {f.emit(f'urem i64 {last}, {self.run}')}")
        return self.numbers.extreme("smin", position, last)

    def _rows(self, first: str, high: str) -> list[str]:
        """The rows of a vector of positions; of those behind the last run, those of the run."""
        f = self.f
        rows = []
        for start in range(0, self.lanes, self.run):
            position = f.emit(f"add i64 {first}, {start}")
            row = self._row(self._within(position, high))
            rows += [f.emit(f"add i64 {row}, {i * self.p.groups}") for i in range(self.run)]
        return rows

    @property
    def has_scales(self) -> bool:
        """Whether pages have scales."""
        return self.p.page == "int8"

    def _scales(self, which: int, rows: Sequence[str]) -> str:
        """The scales of keys (0) or values (1) in these rows; empty without any."""
        if not self.has_scales:
            return ""
        vector, made = self.vector, "poison"
        for i, row in enumerate(rows):
            x = self.numbers.load(self.pointers[6 + which], row, self.scale_dtype, None, 1)
            lane = f"{vector.element} {x}, i32 {i}"
            made = self.f.emit(f"insertelement {vector.text} {made}, {lane}")
        return made

    # -- memory ------------------------------------------------------------------------------------

    def _part(self, which: int, row: str, chunk: int, width: int) -> str:
        """Some numbers of a key (1) or a value (2), wide."""
        f = self.f
        place = f.emit(f"mul i64 {row}, {width}")
        place = f.emit(f"add i64 {place}, {chunk * self.lanes}")
        return self.numbers.load(
            self.pointers[which], place, self.p.page, self.numbers.mask(chunk, width)
        )

    def _put(self, place: int, x: str) -> None:
        address = self.f.offset(self.state, self.vector.text, str(place))
        self.f.do(f"store {self.vector.text} {x}, ptr {address}, align 64")

    def _get(self, place: int) -> str:
        address = self.f.offset(self.state, self.vector.text, str(place))
        return self.f.emit(f"load {self.vector.text}, ptr {address}, align 64")

    def _score_address(self, head: int, at: str) -> str:
        place = self.f.emit(f"add i64 {at}, {head * BLOCK}")
        return self.f.offset(self.scores, self.vector.element, place)

    def _put_scores(self, head: int, at: str, x: str) -> None:
        address = self._score_address(head, at)
        self.f.do(f"store {self.vector.text} {x}, ptr {address}, align {self.align}")

    def _get_scores(self, head: int, at: str) -> str:
        address = self._score_address(head, at)
        return self.f.emit(f"load {self.vector.text}, ptr {address}, align {self.align}")
