"""`lychgate sql print|apply|status`: the tables of the SQL backend (Q3).

The backend runs no DDL, so that its role needs no rights to do so. Whoever may make tables runs
`apply`, or gives what `print` shows to their own migrations.

Exit codes: 0 the tables are as this version wants them; 1 they are not, or are newer; 3 the
database cannot be reached or refuses; 4 usage.
"""

from __future__ import annotations

import argparse
import os

from lychgate import ConfigError, SchemaError, SqlError
from lychgate._sql_driver import Driver, apply_command
from lychgate._sql_options import driver_of
from lychgate._sql_schema import ENGINES, VERSION, apply, statements, status
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command, print_json

_SUMMARY = "print, apply or look at the tables of the SQL backend"
_EXAMPLE = """lychgate sql apply sqlite:///tasks.db
  lychgate sql status postgresql://admin@db.example/shop
  lychgate sql print --engine postgres --since 0
  lychgate sql status 'mariadb://db.example/shop?read_default_file=/home/ada/.my.cnf'

Leave passwords out of URLs: PostgreSQL reads PGPASSWORD and ~/.pgpass, MariaDB the file that its
URL names. Without a URL the command takes the one in LYCHGATE_SQL_URL."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "sql", _SUMMARY, _EXAMPLE)
    parser.add_argument("action", choices=("print", "apply", "status"), help="what to do")
    parser.add_argument("url", nargs="?", help="the database (default: LYCHGATE_SQL_URL)")
    parser.add_argument("--engine", choices=ENGINES, help="with print: whose SQL")
    parser.add_argument(
        "--since", type=int, default=0, metavar="VERSION", help="with print: from this version on"
    )


def run(args: argparse.Namespace) -> int:
    url = args.url or os.environ.get("LYCHGATE_SQL_URL")
    try:
        if args.action == "print":
            return _print(args, url)
        if url is None:
            raise UserError("name a database, such as sqlite:///tasks.db", ExitCode.USAGE)
        driver = driver_of(url, os.path.abspath)
        return _apply(args, driver) if args.action == "apply" else _status(args, driver)
    except ConfigError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    except SchemaError as error:
        raise UserError(str(error), ExitCode.SHORT) from error
    except SqlError as error:
        raise UserError(str(error), ExitCode.FAULT) from error


def _print(args: argparse.Namespace, url: str | None) -> int:
    engine = args.engine or (driver_of(url, os.path.abspath).name if url else "sqlite")
    if not 0 <= args.since <= VERSION:
        raise UserError(f"--since is a version from 0 to {VERSION}", ExitCode.USAGE)
    found = statements(engine, args.since)
    if args.json:
        print_json({"engine": engine, "since": args.since, "version": VERSION, "sql": found})
    else:
        print("".join(f"{statement};\n" for statement in found), end="")
    return ExitCode.OK


def _apply(args: argparse.Namespace, driver: Driver) -> int:
    before, after = apply(driver)
    if args.json:
        print_json({"database": driver.shown, "before": before, "version": after})
    elif before == after:
        print(f"{driver.shown}: version {after}, nothing to do")
    else:
        print(f"{driver.shown}: version {after}, was {before}")
    return ExitCode.OK


def _status(args: argparse.Namespace, driver: Driver) -> int:
    found = status(driver)
    if args.json:
        print_json({"database": driver.shown, "version": found, "wanted": VERSION})
    elif found == VERSION:
        print(f"{driver.shown}: version {found}, as wanted")
    elif found > VERSION:
        print(f"{driver.shown}: version {found}, this program knows {VERSION}: upgrade lychgate")
    else:
        what = f"version {found}, not {VERSION}" if found else "no tables"
        print(f"{driver.shown}: {what}; run {apply_command(driver)}")
    return ExitCode.OK if found == VERSION else ExitCode.SHORT
