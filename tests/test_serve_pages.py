"""Pages of a cache: a state machine against memory that is really written and read."""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rlx.ir.errors import AttributeValueError
from rlx.serve.pages import PagePool
from tests.served import Memory

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=9)  # few, so that prefixes meet
ROOTS = st.sampled_from([b"", b"other tenant"])


class Pages(RuleBasedStateMachine):
    """Sequences begin, grow, are cut and end, in any order."""

    def __init__(self):
        super().__init__()
        self.pool = PagePool(6, size=2)
        self.memory = Memory(self.pool)
        self.open = {}  # table -> most

    def step(self, table, tokens):
        start = len(table.tokens)
        self.pool.write(table, tokens)
        self.memory.poison()
        self.memory.write(table, start)

    @rule(tokens=TOKENS, more=st.integers(0, 4), root=ROOTS)
    def begin(self, tokens, more, root):
        room, most = self.pool.available, len(tokens) + more
        table = self.pool.begin(tokens, most, root)
        if table is None:
            assert self.pool.needed(most) > room - len(self.open) or room < self.pool.count
            return
        assert table.tokens == tokens[: len(table.tokens)]
        assert len(table.tokens) < len(tokens)
        self.memory.check(table)
        self.open[table] = most
        self.step(table, tokens[len(table.tokens) :])
        self.pool.commit(table)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=TOKENS)
    def grow(self, data, tokens):
        table = data.draw(st.sampled_from(list(self.open)))
        if len(table.tokens) + len(tokens) <= self.open[table]:
            self.step(table, tokens)
            self.pool.commit(table)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=TOKENS)
    def guess(self, data, tokens):
        """Tokens that are written and taken back, as those of a wrong guess."""
        table = data.draw(st.sampled_from(list(self.open)))
        tokens = tokens[: self.open[table] - len(table.tokens)]
        kept = data.draw(st.integers(0, len(tokens)))
        start = len(table.tokens)
        self.step(table, tokens)
        self.pool.cut(table, start + kept)
        self.pool.commit(table)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data):
        table = data.draw(st.sampled_from(list(self.open)))
        self.pool.close(table)
        del self.open[table]

    @invariant()
    def each_reads_its_own(self):
        for table in self.open:
            self.memory.check(table)

    @invariant()
    def pages_are_counted(self):
        held = {page for table in self.open for page in table.pages}
        empty, idle = set(self.pool._empty), set(self.pool._idle)
        assert held | empty | idle == set(range(self.pool.count))
        assert len(held) + len(empty) + len(idle) == self.pool.count
        promised = sum(table.promised for table in self.open)
        assert self.pool.available == len(empty) + len(idle) - promised >= 0
        for table, most in self.open.items():
            assert len(table.pages) + table.promised >= self.pool.needed(most)


TestPages = Pages.TestCase
TestPages.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_prefix_is_shared_and_forgotten_from_its_end():
    pool = PagePool(4, size=2)
    first = pool.begin([1, 2, 3, 4, 5, 6, 7], most=7)
    pool.write(first, [1, 2, 3, 4, 5, 6, 7])
    pool.commit(first)
    pages = list(first.pages)
    pool.close(first)
    other = pool.begin([9], most=3)  # two pages: the empty one, and the end of the prefix
    pool.write(other, [9, 9, 9])
    assert pool.take_stale() == [pages[3], pages[2]]
    again = pool.begin([1, 2, 3, 4, 5], most=5)
    assert again is None  # a third page is not there
    pool.close(other)
    again = pool.begin([1, 2, 3, 4, 5], most=5)
    assert again.tokens == [1, 2, 3, 4] and again.pages == pages[:2]


def test_another_root_shares_nothing():
    pool = PagePool(8, size=2)
    for root in (b"a", b"b", b"a"):
        table = pool.begin([1, 2, 3], most=3, root=root)
        shared = len(table.tokens)
        pool.write(table, [1, 2, 3][shared:])
        pool.commit(table)
        pool.close(table)
    assert shared == 2


def test_what_is_not_committed_is_not_found():
    pool = PagePool(8, size=2)
    first = pool.begin([1, 2, 3], most=3)
    pool.write(first, [1, 2, 3])
    assert pool.begin([1, 2, 3], most=3).tokens == []


def test_misuse_is_named():
    pool = PagePool(2, size=2)
    with pytest.raises(AttributeValueError, match="size of PagePool is 0"):
        PagePool(2, size=0)
    with pytest.raises(AttributeValueError, match="3 tokens cannot have 2 at most"):
        pool.begin([1, 2, 3], most=2)
    table = pool.begin([1], most=2)
    with pytest.raises(AttributeValueError, match="3 tokens more need 2 pages, 1 were promised"):
        pool.write(table, [1, 2, 3])
    pool.write(table, [1, 2])
    pool.commit(table)
    with pytest.raises(AttributeValueError, match="cannot be cut to 1"):
        pool.cut(table, 1)
    pool.close(table)
    with pytest.raises(AttributeValueError, match="the sequence has ended"):
        pool.close(table)
