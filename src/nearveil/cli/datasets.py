"""``nearveil datasets``: list the paper's populations, and download the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from nearveil.cli._command import group, option
from nearveil.cli._options import FILE, json_option
from nearveil.cli._output import say, say_json, waiting
from nearveil.errors import DataError, UsageError
from nearveil.evaluation.dataset_statistics import describe_dataset
from nearveil.io.datasets import (
    SNAP_FILES,
    SNAP_URL,
    Dataset,
    DatasetName,
    Fetched,
    cache_folder,
    fetch_snap,
    find_check_ins,
    load_dataset,
)
from nearveil.report.text_table import text_table

_GENERATED = (DatasetName.GAUSSIAN, DatasetName.BETA)
_CHECK_INS = (DatasetName.BRIGHTKITE, DatasetName.GOWALLA)


@group(invoke_without_command=True)
@click.pass_context
@option(
    "--data-dir",
    type=FILE,
    metavar="FOLDER",
    help="Folder with the files of check-ins.",
    show_default="NEARVEIL_DATA_DIR, then the cache folder",
)
@option("--statistics", is_flag=True, help="Also print density and clustering statistics.")
@json_option
def datasets(context: click.Context, *, data_dir: Path | None, statistics: bool, json: bool) -> None:
    """List the four populations of the paper, with their sources and sizes.

    'gaussian' and 'beta' are generated. 'brightkite' and 'gowalla' are real check-ins, which 'nearveil datasets fetch'
    downloads.
    """
    if context.invoked_subcommand is not None:
        return
    with waiting("reading the populations"):
        found = [(name, _load(name, data_dir)) for name in DatasetName]
        described = {
            name: describe_dataset(dataset) for name, dataset in found if statistics and isinstance(dataset, Dataset)
        }
    if json:
        say_json({"datasets": [_to_dict(name, dataset, described.get(name), data_dir) for name, dataset in found]})
        return
    say(text_table(["dataset", "people", "from"], [_row(name, dataset, data_dir) for name, dataset in found]))
    if described:
        say("\n" + _statistics_table(described))


@datasets.command()
@click.argument(
    "names",
    nargs=-1,
    type=click.Choice([name.value for name in _CHECK_INS]),
    metavar="[brightkite|gowalla]...",
    help="Population to download; both by default.",
)
@option("--to", type=FILE, metavar="FOLDER", help="Folder for the files.", show_default="the cache folder")
@option("--from", "base_url", default=SNAP_URL, metavar="URL", help="Address of SNAP or of a mirror.")
@option("--sha256", metavar="HEX", help="Expected SHA-256 of the file, if you know it.")
def fetch(names: tuple[str, ...], *, to: Path | None, base_url: str, sha256: str | None) -> None:
    """Download SNAP's original files of check-ins (60 MB and 105 MB), and verify them.

    SNAP publishes no checksums. The file of gowalla must have the checksum that several public projects state. No
    checksum is known for brightkite: gzip's own checksum must be right and the number of check-ins close to SNAP's.
    """
    wanted = list(dict.fromkeys(map(DatasetName, names))) or _CHECK_INS
    if sha256 is not None and len(wanted) != 1:
        raise UsageError("--sha256 is for one file; name the population to download")
    folder = cache_folder() if to is None else to
    for name in wanted:
        with _download_bar(SNAP_FILES[name].name) as progress:
            fetched = fetch_snap(name.value, folder, base_url=base_url, sha256=sha256, progress=progress)
        say("\n".join(_fetched_lines(name, fetched)))
    if to is not None:
        say(f"To use it: --data-dir {to}")


def _load(name: DatasetName, data_dir: Path | None) -> Dataset | str:
    """Return a population, or a sentence that says why it is missing."""
    if name not in _GENERATED and find_check_ins(name, data_dir) is None:
        return f"not found; to get it: nearveil datasets fetch {name.value}"
    try:
        return load_dataset(name, data_dir)
    except DataError as error:
        return f"cannot be used: {error}"


def _path(name: DatasetName, data_dir: Path | None) -> str | None:
    return None if name in _GENERATED else str(find_check_ins(name, data_dir))


def _row(name: DatasetName, dataset: Dataset | str, data_dir: Path | None) -> list[str]:
    if isinstance(dataset, str):
        return [name.value, "", dataset]
    path = _path(name, data_dir)
    return [name.value, f"{len(dataset.places):,}", dataset.source if path is None else f"{dataset.source}, {path}"]


def _to_dict(
    name: DatasetName, dataset: Dataset | str, described: dict[str, float] | None, data_dir: Path | None
) -> dict[str, object]:
    if isinstance(dataset, str):
        return {"name": name.value, "people": None, "source": None, "path": None, "problem": dataset}
    document: dict[str, object] = {
        "name": name.value,
        "people": len(dataset.places),
        "source": dataset.source,
        "path": _path(name, data_dir),
    }
    if described is not None:
        document["statistics"] = described
    return document


def _statistics_table(described: dict[DatasetName, dict[str, float]]) -> str:
    headers = ["dataset", "places", "per km²", "nearest other", "Clark–Evans"]
    rows = [
        [
            name.value,
            f"{one['places']:,}",
            f"{one['density_per_km2']:.2f}",
            f"{one['median_nearest_m']:.1f} m",
            f"{one['clark_evans']:.3f}",
        ]
        for name, one in described.items()
    ]
    return text_table(headers, rows)


def _fetched_lines(name: DatasetName, fetched: Fetched) -> list[str]:
    state = "already there" if fetched.was_there else "downloaded"
    basis = (
        "its SHA-256 is the one expected"
        if SNAP_FILES[name].sha256
        else "no SHA-256 is known for this file: its gzip checksum is right and its number of check-ins near SNAP's"
    )
    return [f"{name.value}: {fetched.path} ({state})", f"  SHA-256 {fetched.sha256}", f"  {basis}"]


@contextmanager
def _download_bar(title: str) -> Iterator[_Bar]:
    """Show a progress bar in bytes if standard error is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Bar(bar, bar.add_task(title, total=None))


class _Bar:
    """What pooch takes for a progress bar."""

    total = 0

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def update(self, count: int) -> None:
        """Show that bytes have arrived."""
        self._bar.update(self._task, advance=count, total=self.total or None)

    def reset(self) -> None:
        """Start again from nothing."""
        self._bar.reset(self._task)

    def close(self) -> None:
        """Nothing is left to do."""
