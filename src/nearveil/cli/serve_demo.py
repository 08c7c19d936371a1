"""``nearveil serve-demo``: run the service with a made-up city, and print commands to try."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from nearveil.cli._command import command, option
from nearveil.cli._options import DEMO_REGION, FILE
from nearveil.cli._output import progress_bar, say
from nearveil.cli.serve import announce
from nearveil.errors import UsageError
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.fit_cells import check_hide_among
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M
from nearveil.nearby.publishing.store_identity import OtherStoreError
from nearveil.region import Region
from nearveil.report.land import land_in
from nearveil.server.settings import Settings
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from nearveil.server.service import Service

_BATCH = 512
_RECEIPT = "5c0d8a2e9f4b7163d0a1c2e3"
"""What made-up people bring with their first report, and the command to try with its next, as often as it is tried."""


@command()
@option(
    "--out",
    type=FILE,
    default=Path("serve-demo"),
    metavar="FOLDER",
    help="Folder for the store and the keys; may be deleted.",
)
@option("--port", type=click.IntRange(0, 65_535), default=8000, help="Port to listen on; 0 for any free port.")
@option(
    "--noise",
    metavar="LENGTH",
    help="Mean distance that the noise adds.",
    show_default=f"{DEFAULT_NOISE_M:.0f}m",
)
@option(
    "--hide-among",
    type=int,
    metavar="NUMBER",
    help="Mean number of users to hide among, in place of --noise; half of all users have fewer than about half as "
    "many others nearer. The cells are made from other synthetic users and written to the folder.",
)
@option("--epoch", default="1m", metavar="TIME", help="Time between two publications.")
def serve_demo(*, out: Path, port: int, noise: str | None, hide_among: int | None, epoch: str) -> None:
    """Run the service with 25,000 synthetic users of San Francisco, and print commands to try."""
    # Imported here, so that --help does not wait for the web server.
    from nearveil.server import run  # noqa: PLC0415
    from nearveil.server.logs import set_up_logs  # noqa: PLC0415

    if noise is not None and hide_among is not None:
        raise UsageError("give --noise or --hide-among, not both")
    options = {
        "store": str(out / "nearveil.db"),
        "port": port,
        "region": DEMO_REGION,
        "noise": noise,
        "epoch": epoch,
        "test_hooks": True,
        "log_level": "warning",
    }
    settings = Settings.load(options=options)
    region = settings.protection().region
    if hide_among is not None:
        check_hide_among(hide_among)
    folder = run.make_data_folder(settings)
    listening = run.listen(settings)
    try:
        if hide_among is not None:
            cells = _cells_file(out, hide_among, region)
            settings = Settings.load(options={**options, "hide_among": hide_among, "cells": cells})
        set_up_logs(settings.log_level)
        service = _opened(settings, out)
        if not service.store.totals().published:
            _add_people(service, synthetic_city(PEOPLE, region, rng=SEED, land=land_in(region)))
        key_file = run.first_platform_key(service.store, folder) or out / run.PLATFORM_KEY_FILE
    except BaseException:
        listening.close()
        raise
    address = run.address_of(listening)
    announce(service, address, key_file)
    run.run(service, listening, when_ready=lambda: say(_commands_to_try(address, key_file, region)))


def _cells_file(folder: Path, hide_among: int, region: Region) -> Path:
    """Return the file of the cells, made at the first start: another version could make others for the same store."""
    from nearveil.server.console.demonstration import cells_of_city  # noqa: PLC0415 - slow to load

    path = folder / f"cells-{hide_among}.geojson"
    if not path.exists():
        cells = cells_of_city(hide_among, region)
        cells.check_holds(hide_among)
        cells.save(path)
        say(f"cells to hide among {hide_among:,} people: from other people of the made-up city, written to {path}")
    return path


def _opened(settings: Settings, folder: Path) -> Service:
    from nearveil.server.service import Service  # noqa: PLC0415 - loads the web server

    try:
        return Service.open(settings)
    except OtherStoreError as error:
        before = error.made_with or "another --noise, --hide-among or --epoch"
        raise UsageError(
            f"the demo in {folder} was started with {before}; start it with that, delete the folder, or choose another "
            "with --out"
        ) from None


def _add_people(service: Service, locations: FloatArray) -> None:
    people = [person_id(number) for number in range(len(locations))]
    service.publisher.add_people(people)
    with progress_bar("people report where they are", len(people)) as advance:
        for start in range(0, len(people), _BATCH):
            batch = slice(start, start + _BATCH)
            reports = [
                service.publisher.accept(person, float(latitude), float(longitude), previous=_RECEIPT)
                for person, (latitude, longitude) in zip(people[batch], locations[batch], strict=True)
            ]
            service.publisher.receive(reports)
            advance(len(reports))
    service.publisher.advance()


def person_id(number: int) -> str:
    """Return the id of a made-up person."""
    return f"person-{number:05d}"


def _commands_to_try(address: str, key_file: Path, region: Region) -> str:
    latitude, longitude = np.round(region.centre, 4)
    location = f'{{"latitude": {latitude}, "longitude": {longitude}'
    start = f'curl -s -H "Authorization: Bearer $(cat {key_file})"'
    return "\n".join(
        [
            "Try, in another terminal:",
            f"""  {start} {address}/v1/nearby --json '{location}, "k": 5}}'""",
            f"  {start} -X PUT {address}/v1/people/{person_id(7)}/location "
            f"""--json '{location}, "previous": "{_RECEIPT}"}}'""",
            f"  {start} {address}/v1/people/{person_id(7)}",
            "Ctrl-C stops the service.",
        ]
    )
