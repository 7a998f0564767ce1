"""The WebGPU device: kernels in WGSL, run through wgpu on Vulkan and others.

A graph becomes an executable whose arrays lie in the device's memory. `adapters.py` finds
what a name means, `device.py` is an open one, `backend.py` compiles for it. Kernels are written by
`rlx/backends/c_like` in the words of `wgsl.py`. May import `ir`, `lower`, what stands beside it in
`backends`, and wgpu when the device is opened. Read `backend.py` first.
"""
