"""The builder of Core ML programs; its methods come into being when it is loaded."""

from typing import Any

from coremltools.converters.mil.mil import Builder

mb: Any = Builder
