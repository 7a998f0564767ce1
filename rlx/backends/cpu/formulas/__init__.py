"""Vector code of transcendental functions.

Read `functions.py` first.
"""
