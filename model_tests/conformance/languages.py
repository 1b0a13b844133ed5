"""The example adapters as commands, in every language that this machine has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lychgate_conformance._session import Command
from lychgate_conformance.adapters import HOME

LOG_STORE = "lychgate_conformance.adapters.log_store:LogStore"
LANGUAGES = ("python", "node", "ruby", "c")

_PROGRAMS = {"node": "node", "ruby": "ruby", "c": "cc"}


def adapter(language: str, place: Path) -> Command:
    """The command of an example adapter; the test is skipped where the language is missing.

    `place`: where to compile it, if need be.
    """
    if language == "python":
        return python_adapter(LOG_STORE)
    program = shutil.which(_PROGRAMS[language])
    if program is None:
        pytest.skip(f"{language} is not installed: no {_PROGRAMS[language]} on PATH")
    if language == "c":
        return Command((str(_compiled(program, place)),))
    ending = {"node": "node_adapter.mjs", "ruby": "ruby_adapter.rb"}[language]
    return Command((program, str(HOME / ending)))


def python_adapter(spec: str, *claims: str) -> Command:
    return Command((sys.executable, str(HOME / "python_adapter.py"), spec, *claims))


def _compiled(compiler: str, place: Path) -> Path:
    program = place / "c_adapter"
    if not program.exists():
        words = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
        subprocess.run([*words, str(HOME / "c_adapter.c")], check=True)
    return program
