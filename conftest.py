"""What the tests, and the processes they start, find when they begin."""

import os

os.environ["RLX_CACHE"] = "0"  # all is compiled, nothing is on disk; before rlx reads it
# JAX says what is right, and takes long to compile: not twice as long for code to run once
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
QUICK += " --xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", QUICK)
