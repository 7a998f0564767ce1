"""Attention to keys and values in pages: see the op `paged_attention`.

Each token is computed alone, in an order that its own position gives (`shares.py`), so nothing
depends on the others. Threads share all segments of all tokens. Of a token whose segments several
of them have, the sums are left in memory, and put together by the kernel that `emit_rest` writes.
Neighboring tokens of one text go through its keys together, so that memory is read once for all.
"""

from __future__ import annotations

from ....ir.dims import Size, likely
from ....ir.record import record
from ....lower.lir.program import LibraryCall
from ..llvm.host import Host
from ..llvm.text import Function, Module
from ..loops.kernels import Layout
from .results import Results
from .shares import Bound
from .sizes import Sizes
from .tokens import Own, Tokens

NANOSECONDS = 0.02  # of one product
# Of what a part leaves: a head, then the segments of the token that it began with, then those of
# the token that it ended with. The head has the number of parts, and for both of these tokens its
# number, how many segments are there, and whether they are its last ones.
HEAD = 64  # bytes
BEGUN, ENDED = 1, 4  # places of these numbers


@record(eq=False)
class PagedAttention:
    """A call."""

    sizes: Sizes
    step: LibraryCall

    @classmethod
    def of(cls, step: LibraryCall, host: Host) -> PagedAttention:
        """The plan of a call."""
        return cls(Sizes.of(step, host), step)

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes that the time grows with."""
        return (self.sizes.tokens, self.sizes.table)

    @property
    def cost(self) -> float:
        """Rough nanoseconds on one thread, where sequences fill half of their tables."""
        p = self.sizes
        sums = p.size * p.groups * p.heads * (p.width + p.depth)
        return NANOSECONDS * likely(p.tokens) * likely(p.table) * sums / 2

    @property
    def scratch_bytes(self) -> int:
        """The bytes of what a part leaves."""
        return HEAD + 2 * self.sizes.piece_bytes

    @property
    def has_rest(self) -> bool:
        """Whether something is left to do after all parts."""
        return True

    def emit(self, module: Module, f: Function, layout: Layout, is_shared: bool) -> None:
        """Emit the attention of all tokens, or of those of a part."""
        if self.sizes.is_empty:
            return
        step, count = self.step, f.number(self.sizes.tokens)
        pointers = [layout.pointer(f, b) for b in (*step.inputs, *step.outputs)]
        tokens = Tokens(f, self.sizes, pointers)
        if not is_shared:
            _Part(f, tokens, Bound("0", "0"), Bound(count, "0")).write()
            return
        left = _left(f, layout, self, "%part")
        part = _Part(f, tokens, *tokens.spans.shared(count), left)
        part.write_head()
        part.write()

    def emit_rest(self, f: Function, layout: Layout) -> None:
        """Emit the results of tokens of which several parts had some."""
        if self.sizes.is_empty:
            return
        p, results = self.sizes, Results(f, self.sizes, layout.pointer(f, self.step.outputs[0]))
        sums = f.reserve(f"[{p.groups * p.result} x {p.vector.text}]", 64)
        parts = f.emit(f"load i64, ptr {layout.scratch(f)}")
        with f.loop("0", parts) as loop:
            left = _left(f, layout, self, loop.index)
            for kind, place in enumerate((BEGUN, ENDED)):
                token, count, is_end = (
                    f.emit(f"load i64, ptr {f.offset(left, 'i64', str(place + i))}")
                    for i in range(3)
                )
                with f.loop("0", count) as segments, f.loop("0", str(p.groups)) as groups:
                    own = _piece(f, p, sums, "0", groups.index)
                    if place == ENDED:
                        is_first = f.emit(f"icmp eq i64 {segments.index}, 0")
                        with f.when(is_first):
                            results.clear(own)
                    start = f.offset(left, "i8", str(HEAD + kind * p.piece_bytes))
                    results.merge(_piece(f, p, start, segments.index, groups.index), own)
                is_whole = f.emit(f"icmp ne i64 {is_end}, 0")
                with f.when(is_whole), f.loop("0", str(p.groups)) as groups:
                    results.finish(_piece(f, p, sums, "0", groups.index), token, groups.index)


def _left(f: Function, layout: Layout, call: PagedAttention, part: str) -> str:
    """The memory of what a part leaves."""
    place = f.emit(f"mul i64 {part}, {call.scratch_bytes}")
    return f.offset(layout.scratch(f), "i8", place)


def _piece(f: Function, p: Sizes, start: str, segment: str, group: str) -> str:
    """The place of a segment's sums of a group, or of all groups from it on."""
    row = f.emit(f"add i64 {f.emit(f'mul i64 {segment}, {p.groups}')}, {group}")
    return f.offset(start, p.vector.text, f.emit(f"mul i64 {row}, {p.result}"))


class _Part:
    """What lies between two bounds; at `left` a part of several leaves pieces."""

    def __init__(
        self, f: Function, tokens: Tokens, begin: Bound, end: Bound, left: str = ""
    ) -> None:
        self.f, self.tokens, self.p = f, tokens, tokens.p
        self.begin, self.end, self.left = begin, end, left

    def write_head(self) -> None:
        """Say which segments of which tokens are left."""
        f, begin, end = self.f, self.begin, self.end
        self.has_begun = f.emit(f"icmp sgt i64 {begin.segments}, 0")
        is_same = f.emit(f"icmp eq i64 {begin.token}, {end.token}")
        last = f.emit(f"sub i64 {f.number(self.p.tokens)}, 1")
        span = self.tokens.spans.of(self.tokens.numbers.extreme("smin", begin.token, last))
        every = f.emit(f"sub i64 {span.last}, {span.first}")
        count = f.emit(f"select i1 {is_same}, i64 {end.segments}, i64 {every}")
        count = f.emit(f"sub i64 {count}, {begin.segments}")
        begun = f.emit(f"select i1 {self.has_begun}, i64 {count}, i64 0")
        goes_on = f.emit(f"and i1 {self.has_begun}, {is_same}")
        ended = f.emit(f"select i1 {goes_on}, i64 0, i64 {end.segments}")
        is_end = f.emit(f"and i1 {self.has_begun}, {f.emit(f'xor i1 {is_same}, true')}")
        is_end = f.emit(f"zext i1 {is_end} to i64")
        head = "%parts", begin.token, begun, is_end, end.token, ended, "0"
        for i, x in enumerate(head):
            f.do(f"store i64 {x}, ptr {f.offset(self.left, 'i64', str(i))}")

    def write(self) -> None:
        """Write the attention of its tokens, tile after tile."""
        f, begin, end = self.f, self.begin, self.end
        self.stop = end.token
        if self.left:
            has_more = f.emit(f"icmp sgt i64 {end.segments}, 0")
            self.stop = f.emit(f"add i64 {end.token}, {f.emit(f'zext i1 {has_more} to i64')}")
        following = f.reserve("i64", 8)
        f.do(f"store i64 {begin.token}, ptr {following}")
        with f.loop(begin.token, self.stop) as loop:
            is_next = f.emit(f"icmp eq i64 {loop.index}, {f.emit(f'load i64, ptr {following}')}")
            with f.when(is_next):
                self._tile(loop.index, following)

    def _tile(self, token: str, following: str) -> None:
        f, tokens = self.f, self.tokens
        span = tokens.spans.of(token)
        count = tokens.alike(token, span, self.end.token)
        is_begun = is_ended = is_piece = "false"
        is_whole = "true"
        if self.left:
            is_begun = f.emit(f"icmp eq i64 {token}, {self.begin.token}")
            is_begun = f.emit(f"and i1 {is_begun}, {self.has_begun}")
            is_ended = f.emit(f"icmp eq i64 {token}, {self.end.token}")
            is_piece = f.emit(f"or i1 {is_begun}, {is_ended}")
            is_whole = f.emit(f"xor i1 {is_piece}, true")
            count = f.emit(f"select i1 {is_piece}, i64 1, i64 {count}")
        f.do(f"store i64 {f.emit(f'add i64 {token}, {count}')}, ptr {following}")
        with tokens.each_group(token, count, self.stop) as own:
            length = f.emit(f"shl i64 1, {span.shift}")
            end = f.emit(f"add i64 {own.high}, {f.emit(f'sub i64 {length}, 1')}")
            first, last = (f.emit(f"lshr i64 {x}, {span.shift}") for x in (own.low, end))
            if self.left:
                last = self._after(first, is_ended, self.end.segments, last)
                first = self._after(first, is_begun, self.begin.segments, first)
            with f.loop(first, last) as segments:
                start = f.emit(f"shl i64 {segments.index}, {span.shift}")
                stop = f.emit(f"add i64 {start}, {length}")
                tokens.segment(own, start, stop)
                if self.left:
                    with f.when(is_piece):
                        number = f.emit(f"sub i64 {segments.index}, {first}")
                        self._leave(own, is_begun, number)
                with f.when(is_whole):
                    tokens.merge(own, start, stop)
            with f.when(is_whole):
                tokens.finish(own)

    def _leave(self, own: Own, is_begun: str, segment: str) -> None:
        f = self.f
        place = f.emit(f"select i1 {is_begun}, i64 {HEAD}, i64 {HEAD + self.p.piece_bytes}")
        self.tokens.leave(own, _piece(f, self.p, f.offset(self.left, "i8", place), segment, "0"))

    def _after(self, first: str, is_cut: str, segments: str, other: str) -> str:
        f = self.f
        cut = f.emit(f"add i64 {first}, {segments}")
        return f.emit(f"select i1 {is_cut}, i64 {cut}, i64 {other}")
