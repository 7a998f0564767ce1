"""The loop IR: kernels, contractions, buffers and control flow.

Kernels are loops over scalar expressions. `lower.schedule` makes a `Program` of a graph, and
loop backends render it. It knows no op and no device. Read `program.py` first, then `expr.py` and
`index.py`. These three import each other, for types alone: an index may load numbers, an expression
loads from a buffer at an index, and a program has both.
"""

from .access import reads, writes
from .evaluate import evaluate
from .expr import (
    COMPARISONS,
    INSTRUCTIONS,
    Accumulated,
    Apply,
    Const,
    Expr,
    Guard,
    IndexValue,
    Load,
    Reduce,
    walk,
)
from .index import Atom, Index, Loaded, Quotient, Remainder, Variable
from .program import (
    BranchStep,
    Buffer,
    Carry,
    Chain,
    Contraction,
    Copy,
    Kernel,
    LibraryCall,
    Program,
    RepeatStep,
    RowGroup,
    Scan,
    Scatter,
    Sort,
    Step,
    Store,
    TopK,
    WhileStep,
    nested_programs,
)
from .verify_program import verify_program

__all__ = [
    "COMPARISONS",
    "INSTRUCTIONS",
    "Accumulated",
    "Apply",
    "Atom",
    "BranchStep",
    "Buffer",
    "Carry",
    "Chain",
    "Const",
    "Contraction",
    "Copy",
    "Expr",
    "Guard",
    "Index",
    "IndexValue",
    "Kernel",
    "LibraryCall",
    "Load",
    "Loaded",
    "Program",
    "Quotient",
    "Reduce",
    "Remainder",
    "RepeatStep",
    "RowGroup",
    "Scan",
    "Scatter",
    "Sort",
    "Step",
    "Store",
    "TopK",
    "Variable",
    "WhileStep",
    "evaluate",
    "nested_programs",
    "reads",
    "verify_program",
    "walk",
    "writes",
]
