"""What compiled code does, to look at: profiles, traces, memory plans, pages.

Takes what the runtime recorded, or a function and arguments; gives tables, files and pictures. May
use everything below. `import rlx` loads none of it. Read `profile.py` first.
"""
