"""Models."""
from .loading import load as load
