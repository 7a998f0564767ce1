"""What the documentation site has besides docs/*.md: a hook of MkDocs, see mkdocs.yml.

Pages are made of the docstrings (the API reference), of each example with its picture and source,
and of CONTRIBUTING.md and CHANGELOG.md. Links of docs to such files lead to these pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from mkdocs.structure.files import File  # noqa: E402

from tests import api_reference, gallery  # noqa: E402

LINKS = (  # of files outside of docs to their pages
    (re.compile(r"\]\(\.\./CONTRIBUTING\.md"), "](contributing.md"),
    (re.compile(r"\]\(\.\./CHANGELOG\.md"), "](changelog.md"),
    (re.compile(r"\]\(\.\./examples/(\w+)\.py"), r"](examples/\1.md"),
)
END_OF_SESSION = re.compile(r"\n\n```$", re.MULTILINE)  # doctest needs the blank line, readers not


def made_pages() -> dict[str, str]:
    """The Markdown of each page by its path in the site."""
    pages = {f"api/{name}.md": text for name, text in api_reference.pages().items()}
    pages |= {f"examples/{name}.md": text for name, text in gallery.pages().items()}
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        pages[f"{name.lower()}.md"] = text.replace("](docs/", "](")
    return pages


PAGES = made_pages()


def on_config(config: Any) -> Any:
    """Put the pages of the reference and of the examples into the navigation."""
    config.nav.append({"Reference": [p for p in PAGES if p.startswith("api/")]})
    start = next(part["Start"] for part in config.nav if "Start" in part)
    place = start.index({"Examples": "examples.md"})
    start[place] = {"Examples": ["examples.md", *(p for p in PAGES if p.startswith("examples/"))]}
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    for path, text in PAGES.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to their pages; guides are found before the reference."""
    is_guide = not page.file.src_uri.startswith(("api/", "changelog"))
    page.meta.setdefault("search", {"boost": 2} if is_guide else {})
    for pattern, link in LINKS:
        markdown = pattern.sub(link, markdown)
    return END_OF_SESSION.sub("\n```", markdown)
