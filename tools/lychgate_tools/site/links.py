"""Whether every link of a site that was made leads somewhere, and nothing is fetched from afar."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


@dataclass
class _Page:
    """What a page offers and what it asks for."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = _Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if (name := values.get("id")) is not None:
            self.page.ids.add(name)
        target = values.get("href" if tag in ("a", "link") else "src")
        if target is not None:
            (self.page.links if tag == "a" else self.page.resources).append(target)


def _read(path: Path) -> _Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def broken(directory: Path) -> list[str]:
    """Links to pages, places and files that are not there; resources from elsewhere."""
    pages = {path.resolve(): _read(path) for path in sorted(directory.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(directory.resolve())
        for target in [*page.links, *page.resources]:
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                if target in page.resources:
                    found.append(f"{name}: {target} would be fetched from afar")
                continue
            where, _, fragment = target.partition("#")
            linked = (path.parent / unquote(where)).resolve() if where else path
            if not linked.is_file():
                found.append(f"{name}: {target}: no such file")
            elif fragment and linked in pages and unquote(fragment) not in pages[linked].ids:
                found.append(f"{name}: {target}: no such place on the page")
    return found
