"""Developer tools: verification, NaN checks, cost predictions, conformance.

No call of compiled code needs them. `verify.py` compares a function on
a device with its meaning op by op; `nan_check.py` finds what made a NaN; `costs.py` predicts times
by device, from what `calibrate.py` measured; `conformance.py` checks a backend against every op;
`measure.py` times. `import rlx` loads none of it.
"""
