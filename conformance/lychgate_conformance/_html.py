"""A report as one HTML file: no network, no other file, readable without scripts and in print.

It shows the verdict in a sentence, the counts per level, every case with what was found, the
claims, and where and by which suite it was run. The script only hides rows: by verdict and by text.
`#L1-KILL-007` links to a case; the report as JSON is in the file itself.
"""

from __future__ import annotations

import json
from html import escape

from lychgate_conformance._case import LEVELS
from lychgate_conformance._claims import as_mapping
from lychgate_conformance._report import Report, Result, as_json, replay
from lychgate_conformance._verdict import Verdict

_MARKS = {
    Verdict.PASS: ("✓", "good"),
    Verdict.FAIL: ("✗", "bad"),
    Verdict.HARNESS_ERROR: ("!", "bad"),
    Verdict.INCONCLUSIVE: ("?", "note"),
    Verdict.NOT_MEASURED: ("∅", "note"),
    Verdict.SKIPPED: ("–", "quiet"),
    Verdict.NOT_CLAIMED: ("·", "quiet"),
}

_STYLE = """
:root { color-scheme: light dark; --good: #0a6b2c; --bad: #b3151c; --note: #8a5a00; --line: #8884 }
@media (prefers-color-scheme: dark) { :root { --good: #7fdc9c; --bad: #ff9c96; --note: #f0c36a } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
body { overflow-wrap: anywhere }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem }
tr { border-top: 1px solid var(--line) }
td.n { text-align: right } td:first-child code { white-space: nowrap }
table.narrow { width: auto }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap }
.good { color: var(--good) } .bad { color: var(--bad) } .note { color: var(--note) }
.quiet { opacity: .7 } .verdict { white-space: nowrap; font-weight: 600 }
tr:target { outline: 2px solid var(--note) }
form { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 }
[hidden] { display: none !important } .wide { overflow: auto; overflow-wrap: normal }
@media (max-width: 40rem) { .cases td, .cases tr { display: block } .cases thead { display: none } }
@media print { form { display: none } }
"""

_SCRIPT = """
const form = document.querySelector("form");
const rows = [...document.querySelectorAll("tr[data-verdict]")];
form.hidden = false;
const show = () => {
  const wanted = new FormData(form).getAll("verdict"), text = form.text.value.toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const fits = row.textContent.toLowerCase().includes(text);
    row.hidden = !fits || !wanted.includes(row.dataset.verdict);
    shown += !row.hidden;
  }
  document.querySelector("output").textContent = `${shown} of ${rows.length} cases`;
};
form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
const reveal = () => {
  const row = location.hash && document.getElementById(location.hash.slice(1));
  if (row) { row.hidden = false; row.scrollIntoView(); }
};
addEventListener("hashchange", reveal);
show();
reveal();
"""


def as_html(report: Report) -> str:
    """The whole file."""
    data = json.dumps(as_json(report), ensure_ascii=True).replace("<", "\\u003c")
    title = _text(f"Conformance of {report.backend}")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{title}</h1>",
            f'<p class="{_tone(report)}"><strong>{_text(report.sentence)}.</strong></p>',
            *_notes(report),
            *_levels(report),
            *_cases(report),
            *_claims(report),
            *_environment(report),
            f'<script type="application/json" id="report">{data}</script>',
            f"<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def _text(value: object) -> str:
    """Text for a page; what no encoding can hold as an escape."""
    return escape(str(value).encode("utf-8", "backslashreplace").decode("utf-8"))


def _tone(report: Report) -> str:
    return {0: "good", 2: "note"}.get(int(report.exit_code), "bad")


def _notes(report: Report) -> list[str]:
    notes = [
        f"{_text(case_id)} was expected to fail ({_text(report.expected[case_id])}): {_text(how)}"
        for case_id, how in report.stale.items()
    ]
    notes += [
        f"It claims less than it does: <code>{_text(it.claim)}</code> could be "
        f"<code>{_text('yes' if it.value is True else it.value)}</code>"
        for it in report.understated
    ]
    if not report.declared:
        notes.append("It declares no claims, so it was held to the plain contract.")
    return ["<ul>", *(f"<li>{note}</li>" for note in notes), "</ul>"] if notes else []


def _levels(report: Report) -> list[str]:
    heads = "".join(f'<th scope="col">{it.value}</th>' for it in Verdict)
    lines = ["<h2>Levels</h2>", '<div class="wide"><table>']
    lines.append(f'<thead><tr><th scope="col">level</th>{heads}</tr></thead><tbody>')
    for level, name in LEVELS.items():
        counts = report.counts(level)
        if any(counts.values()):
            cells = "".join(f'<td class="n">{counts[it] or "–"}</td>' for it in Verdict)
            lines.append(f'<tr><th scope="row">{level} {_text(name)}</th>{cells}</tr>')
    return [*lines, "</tbody></table></div>"]


def _cases(report: Report) -> list[str]:
    seen = [it for it in Verdict if report.counts()[it]]
    quiet = (Verdict.PASS, Verdict.NOT_CLAIMED)
    trouble = any(it not in quiet for it in seen)
    boxes = "".join(
        f'<label><input type="checkbox" name="verdict" value="{it.value}"'
        f"{'' if trouble and it in quiet else ' checked'}> {it.value}</label>"
        for it in seen
    )
    return [
        "<h2>Cases</h2>",
        f'<form hidden>{boxes}<label>text <input name="text" type="search"></label>',
        '<output aria-live="polite"></output></form>',
        '<table class="cases"><thead><tr><th scope="col">case</th><th scope="col">promise</th>'
        '<th scope="col">verdict</th><th scope="col">what was found</th></tr></thead><tbody>',
        *(_row(it) for it in report.results),
        "</tbody></table>",
    ]


def _row(result: Result) -> str:
    mark, tone = _MARKS[result.verdict]
    word = "known failure" if result.known else result.verdict.value
    tag = "pre" if "\n" in result.message else "div"
    found = [f"<{tag}>{_text(result.message)}</{tag}>"] if result.message else []
    if result.known:
        found.append(f"<div>expected: {_text(result.expected)}</div>")
    if result.stderr:
        tail = _text(result.stderr[-2000:])
        found.append(f"<details><summary>standard error</summary><pre>{tail}</pre></details>")
    if result.verdict not in (Verdict.PASS, Verdict.NOT_CLAIMED, Verdict.SKIPPED):
        found.append(f"<code>{_text(replay(result))}</code>")
    case = result.case
    return (
        f'<tr id="{case.id}" data-verdict="{result.verdict.value}">'
        f'<td><a href="#{case.id}"><code>{case.id}</code></a></td>'
        f"<td>{_text(case.title)} <small>[{', '.join(case.requires)}]</small></td>"
        f'<td class="verdict {tone}">{mark} {word}</td><td>{"".join(found)}</td></tr>'
    )


def _claims(report: Report) -> list[str]:
    words = {True: "yes", False: "no"}
    rows = [
        f'<tr><th scope="row"><code>{name}</code></th>'
        f"<td>{_text(words[value] if isinstance(value, bool) else value)}</td></tr>"
        for name, value in as_mapping(report.claims).items()
    ]
    return ["<h2>Claims</h2>", '<table class="narrow"><tbody>', *rows, "</tbody></table>"]


def _environment(report: Report) -> list[str]:
    said = as_json(report)
    pairs = {
        "backend": report.type_name,
        "command": " ".join(report.command) or "in Python",
        "suite": f"{said['suite']['version']}, {said['suite']['cases']} cases",
        "digest of the suite": said["suite"]["digest"],
        "seed": report.seed,
        **said["versions"],
        "complete": "yes" if report.complete else "no: it was interrupted",
        "seconds": round(report.seconds, 1),
    }
    rows = [
        f'<tr><th scope="row">{_text(name)}</th><td><code>{_text(value)}</code></td></tr>'
        for name, value in pairs.items()
    ]
    return ["<h2>Run</h2>", '<table class="narrow"><tbody>', *rows, "</tbody></table>"]
