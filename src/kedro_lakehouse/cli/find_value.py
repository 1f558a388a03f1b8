"""``kedro lakehouse find-value``: the files that hold a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json, print_table
from kedro_lakehouse.cli.subjects import given, values_from_option

if TYPE_CHECKING:
    from kedro_lakehouse.file_search.search import SearchReport
    from kedro_lakehouse.file_search.wanted import Wanted


@click.command("find-value")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@values_from_option("values")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Numbers count in this column only; repeatable.",
)
@click.option(
    "--in", "places", multiple=True, metavar="PLACE", help="Search this folder or file instead; repeatable."
)
@project_options
@no_roles("The files of the lake are searched whole, for no role:")
def find_value(
    *,
    values: tuple[str, ...],
    values_from: str | None,
    columns: tuple[str, ...],
    places: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the files that hold a value: data, deleted rows, metadata, logs, landed files, archives.

    Reads every file below the lakehouse, the landing folders, the archives, the logs and the project's
    folder `data`, each by a reader of its kind: rows of Parquet, ORC and Avro files as they lie there, also
    those that a delete file hides, the bounds in Iceberg's manifests, the pages of SQLite, JSON, text, and
    what is packed with gzip, bzip2, xz, zstd, zip or tar. Starts no JVM. Blocks of Hudi's log files may be
    compressed; files of that kind without a hit are listed as unsure. Files that cannot be read, such as
    objects in Glacier, are listed too.

    A value is matched as a word: 59289 is found in `id=59289`, not in 1592890. In columns of numbers, dates
    and times it is compared by type; with --column only in these columns.

    A value that is given as an argument stays in the shell's history: --values-from takes it from a file.

    \b
    Examples:
      kedro lakehouse find-value 59289 --column customerid
      kedro lakehouse find-value --values-from subjects.txt --in data/lakehouse
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.erasure.find_value import find_value as find
    from kedro_lakehouse.file_search.wanted import Wanted

    wanted = Wanted.of(given(values, values_from, "VALUE"), columns)
    report = find(open_project(), wanted, places)
    if as_json:
        print_json(_facts(report, wanted))
    else:
        _print(report, wanted)


def _facts(report: SearchReport, wanted: Wanted) -> dict[str, object]:
    return {
        "files": report.files,
        "bytes": report.bytes,
        "kinds": dict(sorted(report.kinds.items())),
        "places": list(report.roots),
        "found": [
            {"file": one.path, "kind": one.kind, "place": hit.place, "count": hit.count}
            for one in report.found
            for hit in one.hits
        ],
        "unsure": [{"file": one.path, "kind": one.kind, "problem": one.problem} for one in report.unsure],
        "unread": [{"file": one.path, "problem": one.problem} for one in report.unread],
        "common": list(wanted.common),
    }


def _print(report: SearchReport, wanted: Wanted) -> None:
    rows = [(one.path, one.kind, hit.place, hit.count) for one in report.found for hit in one.hits]
    if rows:
        print_table(("file", "kind", "place", "count"), rows, right=("count",))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.most_common())
    held = f"{len(report.found):,} of them hold a value" if report.found else "none of them holds a value"
    read = report.files - len(report.unread)
    click.echo(f"{read:,} files were read, {report.bytes:,} bytes ({kinds}): {held}.")
    for one in report.unread:
        click.echo(f"Not read: {one.path}: {one.problem}.")
    for one in report.unsure:
        click.echo(f"Unsure: {one.path}: {one.problem or 'its blocks may be compressed'}.")
    if wanted.common:
        click.echo("A value of fewer than four characters occurs by chance: these files prove little.")
