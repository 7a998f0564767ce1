"""Backends: devices that run graphs.

A folder for each device, which alone imports the device's library. Read `backend.py` first.
"""
