"""Programs as other processors would run them: `python tests/other_processors.py neon`.

`neon` prints the assembly of each for a 64-bit ARM. `avx2` runs here what an older x86 would, and
prints by how many units of the largest number each result differs from NumPy's.
"""

import json
import re
import sys
from functools import partial

import llvmlite.binding as llvm
import numpy as np

ARM = {"neon": True, "fp-armv8": True}
NEWER = {  # features of processors that came after some
    "avx2": ("avx512", "amx", "avx10", "avxvnni"),
    "sse": ("avx", "amx", "fma", "f16c"),
    "neon": (),
}
TRIPLE = "aarch64-unknown-linux-gnu"


def pretend(processor: str) -> None:
    """Let LLVM name another processor than this one; before rlx asks for it."""
    found = llvm.get_host_cpu_features()
    kept = {
        name: has and not name.startswith(NEWER[processor])
        for name, has in (ARM if processor == "neon" else found).items()
    }
    names = {"neon": "neoverse-n1", "avx2": "haswell", "sse": "nehalem"}
    llvm.get_host_cpu_features = lambda: type(found)(kept)  # type: ignore[method-assign]
    llvm.get_host_cpu_name = lambda: names[processor]  # type: ignore[method-assign]


def programs():
    """Names, functions of a NumPy-like module and its arrays, arguments."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((70, 70)).astype("float32")
    z = (x + 1j * x.T).astype("complex64")
    n = rng.integers(-9, 9, (70, 70)).astype("int8")
    yield "product", lambda m, x: m.maximum(x @ x.T, 0) + 1, (x,)
    yield "product of doubles", lambda m, x: x @ x, (x.astype("float64"),)
    yield "product of complex numbers", lambda m, z: z @ z, (z,)
    yield "product of bytes", lambda m, n: n.astype("int32") @ n.T.astype("int32"), (n,)
    yield "softmax", lambda m, x: m.exp(x) / m.sum(m.exp(x), axis=1, keepdims=True), (x,)
    yield "functions", lambda m, x: m.sin(x) + m.tanh(x) + m.log1p(m.abs(x)) ** x, (x,)
    yield "halves", lambda m, x: m.exp(x.astype("float16").astype("float32")), (x,)
    yield "running sum", lambda m, x: m.cumsum(x, axis=1), (x,)
    yield "sort", lambda m, x: m.sort(x, axis=1), (x,)
    yield "gather", lambda m, x: x[:, np.array([3, 1, 2])].T * 2, (x,)
    yield "complex numbers", lambda m, z: m.abs(z * z / (z + 1)) + m.exp(z).real, (z,)


def assembly(function, args) -> str:
    """What LLVM makes of a program for the other processor."""
    import rlx
    from rlx.backends.cpu.backend import target_of
    from rlx.backends.cpu.llvm.host import host
    from rlx.backends.cpu.program import ProgramWriter
    from rlx.lower.pipeline import lower

    graph = rlx.jit(function, device="reference").lower(*args).graph  # cpu would start to compile
    writer = ProgramWriter(host())
    writer.write(lower(graph, target_of(host())).program)
    text = re.sub(r"target (triple|datalayout).*\n", "", writer.module.text)
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=host().cpu, opt=2)
    module = llvm.parse_assembly(text)
    module.verify()
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    return machine.emit_assembly(module)


def main(processor: str) -> None:
    """Print a JSON object: of each program the assembly, or how far its result is off."""
    pretend(processor)
    import rlx
    import rlx.numpy as rnp
    from rlx.backends.cpu.llvm.host import host

    found: dict[str, object] = {"vector_bytes": host().vector_bytes}
    if processor == "neon":
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    for name, function, args in programs():
        ours = partial(function, rnp)
        if processor == "neon":
            found[name] = assembly(ours, args)
            continue
        wide = [a.astype({"f": "f8", "c": "c16", "i": "i8"}[a.dtype.kind]) for a in args]
        expected = function(np, *wide) if name != "halves" else function(np, *args)
        result = np.asarray(rlx.jit(ours)(*args))
        eps = np.finfo(result.dtype).eps if result.dtype.kind in "fc" else 1
        error = np.max(np.abs(result - expected)) / (np.max(np.abs(expected)) * eps)
        found[name] = float(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
