"""The devices `cuda` and `rocm`: kernels in CUDA C, run through CuPy.

A graph becomes an executable whose arrays lie in the device's memory. `machine.py` finds
devices by number, is an open one, and compiles text for it (NVRTC); `products.py` says which matrix
products its library computes (cuBLAS), `backend.py` compiles graphs and puts calls into its stream,
or makes one launch of all. Kernels are written by `rlx/backends/c_like`. May import `ir`, `lower`,
what stands beside it in `backends`, and cupy when the device is opened. Read `backend.py` first.
"""
