"""The reference device: every op by its NumPy line.

Enters a graph, leaves its meaning.
"""
