"""``nearveil serve-demo``: the service with a made-up city in it, and commands to try it with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from nearveil.cli._output import progress_bar, say
from nearveil.cli.serve import announce
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.region import Region
from nearveil.report.maps import land_in
from nearveil.server.settings import Settings
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from nearveil.server.service import Service

_AT_ONCE = 512


def serve_demo(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the store and the keys; may be thrown away.")] = Path(
        "serve-demo"
    ),
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.", min=0, max=65_535)] = 8000,
    hide_within: Annotated[str, typer.Option(help="Mean length of the noise.")] = "500m",
    epoch: Annotated[str, typer.Option(help="Time between two publications.")] = "1m",
) -> None:
    """Serve 25,000 made-up people of San Francisco, protected, and print what to try."""
    # Only this verb and serve wait for a web server to load.
    from nearveil.server import run  # noqa: PLC0415
    from nearveil.server.logs import set_up_logs  # noqa: PLC0415
    from nearveil.server.service import Service  # noqa: PLC0415

    options = {
        "store": str(out / "nearveil.db"),
        "port": port,
        "hide_within": hide_within,
        "epoch": epoch,
        "test_hooks": True,
        "log_level": "warning",
    }
    settings = Settings.load(options=options)
    folder = run.make_data_folder(settings)
    listening = run.listen(settings)
    try:
        region = settings.protection().region
        set_up_logs(settings.log_level)
        service = Service.open(settings)
        if not service.store.totals().published:
            _move_in(service, synthetic_city(PEOPLE, region, rng=SEED, land=land_in(region)))
        key_file = run.first_platform_key(service.store, folder) or out / run.PLATFORM_KEY_FILE
    except BaseException:
        listening.close()
        raise
    address = run.address_of(listening)
    announce(service, address, key_file)
    run.run(service, listening, when_ready=lambda: say(_things_to_try(address, key_file, region)))


def _move_in(service: Service, places: FloatArray) -> None:
    people = [person_id(number) for number in range(len(places))]
    service.store.add_people(people)
    with progress_bar("people report where they are", len(people)) as advance:
        for start in range(0, len(people), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            reports = [
                service.publisher.accept(person, float(latitude), float(longitude))
                for person, (latitude, longitude) in zip(people[some], places[some], strict=True)
            ]
            service.publisher.receive(reports)
            advance(len(reports))
    service.publisher.advance()


def person_id(number: int) -> str:
    """Return what a made-up person is called."""
    return f"person-{number:05d}"


def _things_to_try(address: str, key_file: Path, region: Region) -> str:
    latitude, longitude = np.round(region.centre, 4)
    place = f'{{"latitude": {latitude}, "longitude": {longitude}'
    start = f'curl -s -H "Authorization: Bearer $(cat {key_file})"'
    return "\n".join(
        [
            "Try, in another terminal:",
            f"""  {start} {address}/v1/nearby --json '{place}, "k": 5}}'""",
            f"""  {start} -X PUT {address}/v1/people/{person_id(7)}/location --json '{place}}}'""",
            f"  {start} {address}/v1/people/{person_id(7)}",
            "Ctrl-C stops it.",
        ]
    )
