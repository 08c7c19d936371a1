"""``nearveil serve``: a protected "people nearby" service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from nearveil.cli._output import say, warn
from nearveil.nearby.publishing.protection import Policy
from nearveil.server.settings import KNOWN_SETTINGS, Setting, Settings, is_loopback

_SHORT_WINDOW = timedelta(days=7)


def serve(*, config: Path | None = None, show_config: bool = False, **options: Any) -> None:
    """Run a protected 'people nearby' service that answers from noisy locations.

    No other software is needed: the store is a file, and keys are created at the first start. An option overrides a
    NEARVEIL_… variable, and a variable overrides the settings file.
    """
    settings = Settings.load(config, os.environ, options)
    if show_config:
        say(settings.show().rstrip())
        return
    _serve(settings)


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters that Typer turns into options: --config, one per setting, and --show-config."""
    config = typer.Option(help="Settings file (TOML).", metavar="FILE")
    yield Parameter("config", Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, config])
    for setting in KNOWN_SETTINGS.values():
        if setting.only != "environment":
            kind = Annotated[setting.kind | None, _option(setting)]  # type: ignore[name-defined]
            yield Parameter(setting.name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    show = typer.Option("--show-config", help="Print all settings and the source of each, and exit.")
    yield Parameter("show_config", Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, show])


def _option(setting: Setting) -> Any:
    is_switch = setting.kind is bool and setting.only != "option"
    return typer.Option(
        f"{setting.option}/--no-{setting.option.removeprefix('--')}" if is_switch else setting.option,
        help=setting.help,
        metavar=setting.metavar,
        show_default=setting.default if setting.only is None and setting.default else False,
        rich_help_panel=setting.panel,
    )


# Typer reads options from a function's signature and its annotations.
serve.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]
serve.__annotations__ = {each.name: each.annotation for each in _parameters()}


def _serve(settings: Settings) -> None:
    # Imported here, so that --help does not wait for the web server.
    from nearveil.server import run  # noqa: PLC0415
    from nearveil.server.logs import set_up_logs  # noqa: PLC0415
    from nearveil.server.service import Service  # noqa: PLC0415

    run.check_server(settings)
    if settings.workers > 1:
        _serve_with_workers(settings)
        return
    folder = run.make_data_folder(settings)
    listening = run.listen(settings)
    try:
        service = Service.open(settings)
        key_file = run.first_platform_key(service.store, folder)
    except BaseException:
        listening.close()
        raise
    set_up_logs(settings.log_level)
    announce(service, run.address_of(listening, has_tls=settings.tls_key is not None), key_file)
    run.run(service, listening)


def _serve_with_workers(settings: Settings) -> None:
    from nearveil.server import run, workers  # noqa: PLC0415
    from nearveil.server.logs import set_up_logs  # noqa: PLC0415
    from nearveil.server.service import Service  # noqa: PLC0415

    reserved, settings = workers.reserve(settings)
    with reserved:
        # Opened once, so that what is wrong is said once, and closed before the workers open it.
        service = Service.open(settings)
        try:
            announce(service, run.address_of(reserved, has_tls=settings.tls_key is not None), None)
        finally:
            service.close()
        if settings.shared_limits is None and (settings.questions_per_minute or settings.key_questions_per_s):
            warn("each worker has its own limits, so that callers may ask more often; share them with --shared-limits")
        set_up_logs(settings.log_level)
        workers.run_workers(settings, when_ready=lambda: say(f"{settings.workers} workers are ready"))


def announce(service: Any, address: str, key_file: Path | None) -> None:
    """Print the guarantee and the address of the service, and warnings about its settings."""
    settings: Settings = service.settings
    where = "the console, or GET /v1/guarantee" if settings.console else "GET /v1/guarantee"
    say(service.card().card(full_is_at=where))
    say(f"Nearveil serves {service.protection.region} on {address}")
    if settings.console:
        say(f"console: {address}/")
    if key_file is not None:
        say(f"platform key: in {key_file}; keep it secret")
    if settings.keys is None and settings.keys_text is None:
        say("secret keys: in the folder of the store; a copy of the folder discloses both, so keep them apart (--keys)")
    if not is_loopback(settings.host) and settings.tls_key is None:
        warn(
            "other machines can reach this address, and keys and locations are not encrypted; give --tls-certificate "
            "and --tls-key, or put a reverse proxy with TLS in front"
        )
    lifetime = service.protection.noise_lifetime
    if service.protection.policy is Policy.PLACE and lifetime is not None:
        warn(
            f"the noise of a location is drawn anew every {settings.noise_lifetime}, so that it averages out in time; "
            "leave out --noise-lifetime to keep it for good"
        )
    if service.protection.policy is Policy.PLACE and service.protection.schedule.window < _SHORT_WINDOW:
        warn(
            "every budget window allows new places, so with windows this short whoever moves a lot gives away more; "
            "choose a longer --window, such as 30d"
        )
    if settings.chained_reports == "if-sent":
        warn(
            "reports without a receipt are taken (--chained-reports if-sent): a stolen key or token finds most people "
            "whose phones report in some hours and are silent in others; let phones send 'previous', and leave it out"
        )
    if settings.test_hooks:
        warn("test hooks are on: a platform key can advance the epoch")
    if service.is_unprotected:
        warn("PROTECTION IS OFF: true locations are published, and anyone can find anyone")
