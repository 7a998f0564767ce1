"""The device `ane`: graphs as Core ML programs, for Apple's neural engine.

A graph becomes a program of MIL, Core ML's language, which coremltools writes on any machine and
macOS alone can run. Read `emit.py`, the table of ops, then `program.py`. Only this folder imports
`coremltools`.
"""
