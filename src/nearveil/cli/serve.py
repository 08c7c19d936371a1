"""``nearveil serve``: a protected "people nearby" service."""

from __future__ import annotations

import ipaddress
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from nearveil.cli._output import say, warn
from nearveil.nearby.publishing.protection import Policy
from nearveil.server.settings import Settings
from nearveil.server.settings_table import LOUD_OPTION

_PANEL = "Protection"
_LIMITS = "Limits"
_SHORT_WINDOW = timedelta(days=7)


def serve(
    *,
    config: Annotated[Path | None, typer.Option(help="Settings file, TOML.", metavar="FILE")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where draws are kept: a SQLite file, or postgresql://…", show_default="nearveil-data/nearveil.db"
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 for any that is free.", show_default="8000")] = None,
    region: Annotated[
        str | None,
        typer.Option(
            help="Public region: a name, south,west,north,east in degrees, or a GeoJSON file.",
            show_default="san-francisco",
        ),
    ] = None,
    policy: Annotated[
        Policy | None,
        typer.Option(
            help="Noise per place, fresh noise at every border, or off.", show_default="place", rich_help_panel=_PANEL
        ),
    ] = None,
    hide_within: Annotated[
        str | None, typer.Option(help="Mean length of the noise.", show_default="500m", rich_help_panel=_PANEL)
    ] = None,
    epoch: Annotated[
        str | None, typer.Option(help="Time between two borders.", show_default="1h", rich_help_panel=_PANEL)
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="How long a budget lasts.", show_default="30d", rich_help_panel=_PANEL)
    ] = None,
    new_places: Annotated[
        int | None,
        typer.Option(
            help="Places of a person that are published in a window.", show_default="20", rich_help_panel=_PANEL
        ),
    ] = None,
    intervals: Annotated[
        Path | None,
        typer.Option(help="Intervals that 'nearveil fit' wrote.", metavar="FILE", rich_help_panel=_PANEL),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="Secret keys.", metavar="FILE", show_default="keys.json beside the SQLite file", rich_help_panel=_PANEL
        ),
    ] = None,
    unprotected: Annotated[
        bool | None,
        typer.Option(LOUD_OPTION, help="What the policy off needs: true places are published.", rich_help_panel=_PANEL),
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="What answers questions: memory, or database.", show_default="memory")
    ] = None,
    questions_per_minute: Annotated[
        float | None,
        typer.Option(help="Questions of a person; 0 for no limit.", show_default="60", rich_help_panel=_LIMITS),
    ] = None,
    question_burst: Annotated[
        float | None,
        typer.Option(help="Questions of a person at once.", show_default="30", rich_help_panel=_LIMITS),
    ] = None,
    key_questions_per_s: Annotated[
        float | None,
        typer.Option(help="Requests of a platform key; 0 for no limit.", show_default="1000", rich_help_panel=_LIMITS),
    ] = None,
    throttle_suspects: Annotated[
        bool | None,
        typer.Option(
            "--throttle-suspects/--no-throttle-suspects",
            help="Refuse questions of people whose behaviour is flagged.",
            show_default="no",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    open_probes: Annotated[
        bool | None,
        typer.Option(
            "--open-probes/--no-open-probes",
            help="Let /readyz and /metrics be read from this machine without a key.",
            show_default="no",
        ),
    ] = None,
    console: Annotated[
        bool | None,
        typer.Option("--console/--no-console", help="Serve the operator's page at /.", show_default="yes"),
    ] = None,
    tile_address: Annotated[
        str | None, typer.Option(help="Map tiles for that page, with {z}, {x} and {y}.", metavar="URL")
    ] = None,
    test_hooks: Annotated[
        bool | None,
        typer.Option(
            "--test-hooks/--no-test-hooks",
            help="Let a platform key advance the epoch; for tests only.",
            show_default="no",
        ),
    ] = None,
    access_log: Annotated[
        bool | None,
        typer.Option("--access-log/--no-access-log", help="Log method, route, status and time.", show_default="no"),
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="What to log.", show_default="info")] = None,
    graceful_s: Annotated[
        float | None, typer.Option(help="How long a stop waits for requests under way.", show_default="10")
    ] = None,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print the settings in force and where each comes from, and exit.")
    ] = False,
) -> None:
    """Serve people nearby: reports in, ranked ids out, made from noisy places.

    Needs nothing but this package: the store is a file, and keys are made at the first start. Settings come from
    options, else from NEARVEIL_… variables, else from the settings file.
    """
    options = {name: value for name, value in locals().items() if name not in ("config", "show_config")}
    settings = Settings.load(config, os.environ, options)
    if show_config:
        say(settings.show().rstrip())
        return
    _serve(settings)


def _serve(settings: Settings) -> None:
    # Whoever only wants help, or another verb, does not wait for a web server to load.
    from nearveil.server import run  # noqa: PLC0415
    from nearveil.server.logs import set_up_logs  # noqa: PLC0415
    from nearveil.server.service import Service  # noqa: PLC0415

    folder = run.make_data_folder(settings)
    listening = run.listen(settings)
    try:
        service = Service.open(settings)
        key_file = run.first_platform_key(service.store, folder)
    except BaseException:
        listening.close()
        raise
    set_up_logs(settings.log_level)
    announce(service, run.address_of(listening), key_file)
    run.run(service, listening)


def announce(service: Any, address: str, key_file: Path | None) -> None:
    """Say where the service is, what it promises, and what to take care of."""
    settings: Settings = service.settings
    say(str(service.card()))
    say(f"Nearveil serves {service.protection.region} on {address}")
    if settings.console:
        say(f"console: {address}/")
    if key_file is not None:
        say(f"platform key: in {key_file}, for you alone")
    if settings.keys is None and settings.keys_text is None:
        say("secret keys: beside the store; keep them elsewhere (--keys), a copy of the folder gives both away")
    if not _is_loopback(settings.host):
        warn("this address can be reached from other machines; put TLS in front, keys and places travel in the open")
    if service.protection.policy is Policy.PLACE and service.protection.schedule.window < _SHORT_WINDOW:
        warn(
            "every window draws people's places afresh, and in windows as short as this noise averages out soon; "
            "choose a longer --window, such as 30d"
        )
    if settings.test_hooks:
        warn("test hooks are on: a platform key can advance the epoch")
    if service.is_unprotected:
        warn("PROTECTION IS OFF: true places are published, anybody can find anybody")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
