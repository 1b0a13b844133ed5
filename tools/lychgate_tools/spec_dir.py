"""Where the TLA+ spec is, and what is in it.

Order: `--spec DIR`, LYCHGATE_SPEC, the checkout around this package or the current directory, the
copy inside the installed package (`lychgate_tools/_spec`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lychgate_tools.ui import ExitCode, UserError

MANIFEST = "manifest.toml"


@dataclass(frozen=True)
class Spec:
    """A directory with manifest.toml, modules in it or one level down, model files."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST

    def modules(self) -> dict[str, str]:
        """Sources by module name. TLA+ module names are global, so two files cannot share one."""
        found: dict[str, str] = {}
        for path in sorted([*self.root.glob("*.tla"), *self.root.glob("*/*.tla")]):
            if path.stem in found:
                raise UserError(f"two modules are named {path.stem}: rename {path}", ExitCode.FAULT)
            found[path.stem] = read(path)
        return found

    def config(self, name: str) -> str:
        """The text of a model file, named as in the manifest."""
        return read(self.root / name)


def locate(named: str | None = None) -> Spec:
    """The spec to use; `named` is the value of --spec."""
    explicit = named or os.environ.get("LYCHGATE_SPEC")
    if explicit:
        root = Path(explicit).absolute()
        if not (root / MANIFEST).is_file():
            what = "--spec" if named else "LYCHGATE_SPEC"
            raise UserError(f"{what} {explicit}: no {MANIFEST} there", ExitCode.USAGE)
        return Spec(root)
    for start in (Path(__file__).resolve().parent, Path.cwd()):
        for directory in (start, *start.parents):
            if (directory / "spec" / MANIFEST).is_file():
                return Spec(directory / "spec")
    packaged = Path(__file__).resolve().parent / "_spec"
    if (packaged / MANIFEST).is_file():
        return Spec(packaged)
    raise UserError("no spec found: name its directory with --spec DIR", ExitCode.FAULT)


def checkout() -> Path | None:
    """The root of the checkout that this package runs from, if it runs from one."""
    for directory in Path(__file__).resolve().parents:
        if (directory / "spec").is_dir() and (directory / "pyproject.toml").is_file():
            return directory
    return None


def reports_dir(named: str | None = None) -> Path:
    """Where reports go: the directory named, else reports/ in the checkout, else here."""
    root = Path(named) if named else (checkout() or Path.cwd()) / "reports"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make {root} ({error.strerror}): name another place with --reports DIR"
        ) from error
    return root


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"cannot read {path}: {why}") from error
