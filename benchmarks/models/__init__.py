"""Models, written once over the words of `libraries/library.py`, with their numbers."""
