"""The OpenCL device: kernels in OpenCL C, run through PyOpenCL.

A graph becomes an executable whose arrays lie in the device's memory. `machine.py` finds
devices by name, and is an open one; `backend.py` compiles for it. Kernels are written by
`rlx/backends/c_like`. May import `ir`, `lower`, what stands beside it in `backends`, and pyopencl
when the device is opened.
"""
