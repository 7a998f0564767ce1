"""The devices `mlx` and `metal`: graphs computed by the array library MLX.

A graph becomes functions compiled by `mx.compile`, and the Python loop between them. Read
`emit.py`, the table of ops, then `program.py`. Only this folder imports `mlx`.
"""
