"""The site as files: names and texts. Plain functions; `command.py` writes them.

    index.html      README.md
    guide.html      docs/guide.md, and so on
    source/…        files and directories of the checkout that the pages link to, as text
    images/…        the pictures that they show
    search.js       the index: every section with its text, and the few lines that look in it

Rules of this file
  * Links inside the checkout are rewritten to what the site has; links to elsewhere stay.
  * A heading has the id that GitHub gives it, so that one link serves both.
  * A page is complete without its script: that only searches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

_ORDER = (
    ("Begin", ("README", "quickstart", "guide", "operator")),
    ("Your own backend", ("backends", "protocol", "review", "crash-handbook", "litmus")),
    ("How it works", ("formats", "steps", "spec-tour", "diagrams", "decisions")),
    ("Reference", ("requirements", "traceability", "CHANGELOG")),
)
"""Groups of the navigation; a page that is not named comes in a group of its own."""


@dataclass
class Section:
    """A heading and what stands under it, for the index."""

    anchor: str
    title: str
    level: int
    text: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """A Markdown page, rendered."""

    source: str
    name: str
    title: str
    body: str
    sections: Sequence[Section]


def site(root: Path) -> dict[str, bytes]:
    """Every file of the site by its name."""
    sources = ["README.md", *(f"docs/{path.name}" for path in sorted((root / "docs").glob("*.md")))]
    targets = {source: _name_of(source) for source in sources}
    shown = _Linked(root, targets)
    pages = [_page(root, source, shown) for source in sources]
    groups = _groups(pages)
    ordered = [page for _, members in groups for page in members]
    found = {
        page.name: _document(page.title, _navigation(groups, page), _article(page, ordered), "")
        for page in pages
    }
    for source, name in sorted(shown.sources.items()):
        body = _source_page(root / source, source)
        up = "../" * name.count("/")
        found[name] = _document(source, _navigation(groups, None, up), body, up)
    assets = files("lychgate_tools.site")
    found["site.css"] = assets.joinpath("site.css").read_text(encoding="utf-8")
    script = assets.joinpath("search.js").read_text(encoding="utf-8")
    found["search.js"] = f"const INDEX = {_index(ordered)};\n{script}"
    images = {name: (root / source).read_bytes() for source, name in shown.images.items()}
    return {name: text.encode("utf-8") for name, text in found.items()} | images


def _name_of(source: str) -> str:
    return "index.html" if source == "README.md" else f"{PurePosixPath(source).stem}.html"


# --- Markdown ---------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The id that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")


class _Linked:
    """What the pages link to in the checkout, and where the site has it."""

    def __init__(self, root: Path, pages: dict[str, str]) -> None:
        self._root = root.resolve()
        self.pages = pages
        self.sources: dict[str, str] = {}
        self.images: dict[str, str] = {}

    def relink(self, token: Token, source: str) -> None:
        """Let a link or an image lead to what the site has of it."""
        attribute, known, to = (
            ("src", self.images, "images/{}")
            if token.type == "image"
            else ("href", self.sources, "source/{}.html")
        )
        target = token.attrGet(attribute)
        if not isinstance(target, str) or re.match(r"[a-z]+:|#", target):
            return
        path, found, fragment = target.partition("#")
        file = (self._root / source).parent.joinpath(path).resolve()
        name = file.relative_to(self._root).as_posix()
        if name not in self.pages:
            known.setdefault(name, to.format(name))
        token.attrSet(attribute, f"{self.pages.get(name) or known[name]}{found}{fragment}")


def _page(root: Path, source: str, shown: _Linked) -> Page:
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse((root / source).read_text(encoding="utf-8"))
    sections: list[Section] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            title = _plain(tokens[at + 1])
            token.attrSet("id", slug(title))
            sections.append(Section(slug(title), title, int(token.tag[1:])))
        elif token.type == "inline" and tokens[at - 1].type != "heading_open":
            _into(sections, _plain(token))
        elif token.type == "fence":
            _into(sections, token.content)
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                shown.relink(child, source)
    _label_cells(tokens)
    body = _framed(markdown.renderer.render(tokens, markdown.options, {}))
    title = sections[0].title if sections else source
    return Page(source, shown.pages[source], title, body, sections)


def _label_cells(tokens: Sequence[Token]) -> None:
    """Each cell says its column: on a phone a row is a block of them."""
    headers: list[str] = []
    column = 0
    for at, token in enumerate(tokens):
        if token.type == "table_open":
            headers = []
        elif token.type == "th_open":
            headers.append(_plain(tokens[at + 1]))
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            token.attrSet("data-label", headers[column])
            column += 1


def _into(sections: list[Section], text: str) -> None:
    if sections:
        sections[-1].text.append(text)


def _plain(inline: Token) -> str:
    """The text of an inline token, without its marks."""
    words = {"softbreak": " ", "html_inline": " "}
    return "".join(words.get(child.type, child.content) for child in inline.children or ())


def _framed(body: str) -> str:
    """Tables scroll by themselves, also by keyboard; headings show their address."""
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>')
    body = body.replace("</table>", "</table></div>")
    body = body.replace("<pre>", '<pre tabindex="0">')
    return re.sub(
        r'<h([2-4]) id="([^"]+)">(.*?)</h\1>',
        r'<h\1 id="\2">\3 <a class="here" href="#\2" aria-label="link to this section">#</a></h\1>',
        body,
    )


# --- documents --------------------------------------------------------------------------------

Group = tuple[str, list[Page]]


def _groups(pages: Sequence[Page]) -> list[Group]:
    by_stem = {PurePosixPath(page.source).stem: page for page in pages}
    found = [
        (title, [by_stem.pop(stem) for stem in stems if stem in by_stem])
        for title, stems in _ORDER
    ]
    return [group for group in [*found, ("More", list(by_stem.values()))] if group[1]]


def _navigation(groups: Sequence[Group], here: Page | None, up: str = "") -> str:
    lines = []
    for title, members in groups:
        lines.append(f"<h2>{escape(title)}</h2>\n<ul>")
        for page in members:
            current = ' aria-current="page"' if page is here else ""
            label = "Overview" if page.source == "README.md" else page.title
            lines.append(f'<li><a href="{up}{page.name}"{current}>{escape(label)}</a></li>')
        lines.append("</ul>")
    return "\n".join(lines)


def _article(page: Page, ordered: Sequence[Page]) -> str:
    """The page, with the list of its sections before it and its neighbours behind it."""
    inner = [section for section in page.sections if section.level == 2]
    contents = "".join(
        f'<li><a href="#{escape(it.anchor)}">{escape(it.title)}</a></li>' for it in inner
    )
    at = ordered.index(page)
    around = []
    if at > 0:
        before = ordered[at - 1]
        around.append(f'<a rel="prev" href="{before.name}">← {_title(before)}</a>')
    if at + 1 < len(ordered):
        after = ordered[at + 1]
        around.append(f'<a rel="next" href="{after.name}">{_title(after)} →</a>')
    toc = f"<details class=contents><summary>On this page</summary><ul>{contents}</ul></details>"
    head, end, rest = page.body.partition("</h1>")
    body = f"{head}{end}\n{toc}{rest}" if len(inner) > 2 else page.body
    return f"{body}\n<nav class=around>{''.join(around)}</nav>"


def _title(page: Page) -> str:
    return escape("Overview" if page.source == "README.md" else page.title)


def _source_page(path: Path, source: str) -> str:
    if path.is_dir():
        names = sorted(f"{it.name}/" if it.is_dir() else it.name for it in path.iterdir())
        items = "".join(f"<li>{escape(name)}</li>" for name in names if not name.startswith("_"))
        return f"<h1>{escape(source)}</h1>\n<p>A directory of the checkout.</p>\n<ul>{items}</ul>"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    numbered = "\n".join(
        f'<span id="L{number}">{escape(line)}</span>' for number, line in enumerate(lines, start=1)
    )
    return f"<h1>{escape(source)}</h1>\n<pre class=source tabindex=0><code>{numbered}</code></pre>"


def _document(title: str, navigation: str, body: str, up: str) -> str:
    name = escape(title)
    return f"""<!doctype html>
<html lang="en" data-up="{up}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}{'' if title == 'lychgate' else ' – lychgate'}</title>
<link rel="stylesheet" href="{up}site.css">
<a class="skip" href="#main">Skip to the text</a>
<header>
<a class="home" href="{up}index.html">lychgate</a>
<form role="search" hidden><input type="search" name="q" autocomplete="off" role="combobox"
 aria-label="Search the pages" aria-controls="found" aria-expanded="false"
 placeholder="Search (press /)"></form>
<ol id="found" role="listbox" aria-label="Found" hidden></ol>
</header>
<div class="columns">
<nav class="pages" aria-label="Pages"><details open><summary>Pages</summary>
{navigation}
</details></nav>
<main id="main">
{body}
</main>
</div>
<script src="{up}search.js"></script>
</html>
"""


# --- search -----------------------------------------------------------------------------------


def _index(pages: Sequence[Page]) -> str:
    """Page, address, title and text of every section."""
    rows: list[Any] = []
    for page in pages:
        for section in page.sections:
            text = re.sub(r"\s+", " ", " ".join(section.text)).strip()
            label = "Overview" if page.source == "README.md" else page.title
            rows.append([label, f"{page.name}#{section.anchor}", section.title, text])
    # "</" would end a script element if somebody put the file into a page
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
