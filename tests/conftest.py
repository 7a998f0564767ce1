"""Tests compile what they test: nothing comes from an earlier run, nor goes to the user's cache."""

import os

os.environ["RLX_CACHE"] = "0"

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings of rlx alone: tests have none."""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


@pytest.fixture
def boxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device that an installed package brings; its memory NumPy cannot read."""
    info = tmp_path / "boxed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxed\nVersion: 1.0\n")
    named = [f"{name} = boxed_backend:BoxedBackend" for name in ("boxed", "box:0", "gpu", "cpu")]
    (info / "entry_points.txt").write_text("\n".join(["[rlx.backends]", *named]))
    monkeypatch.syspath_prepend(str(tmp_path))
    from rlx.backends import registry
    from rlx.runtime.session import _session

    caches = (registry._foreign, registry._open, _session)
    for cache in caches:
        cache.cache_clear()
    yield "boxed"
    for cache in caches:
        cache.cache_clear()
