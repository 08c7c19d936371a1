"""``nearveil serve``: a protected "people nearby" service."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from nearveil.cli._command import command, option
from nearveil.cli._options import FILE
from nearveil.cli._output import say, warn
from nearveil.server.settings import KNOWN_SETTINGS, Settings, is_loopback

_SHORT_WINDOW = timedelta(days=7)


OPTIONS = (
    "store",
    "host",
    "port",
    "workers",
    "region",
    "tls_certificate",
    "tls_key",
    "console",
    "open_probes",
    "test_hooks",
    "access_log",
    "audit_log",
    "log_level",
    "noise",
    "hide_among",
    "cells",
    "intervals",
    "epoch",
    "window",
    "dwell",
    "new_places",
    "keys",
    "redraw_noise",
    "questions_per_minute",
    "key_questions_per_s",
    "shared_limits",
    "most_connections",
    "proxies",
)
"""The settings that have an option; the others are for the settings file and the environment."""


def _setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(OPTIONS):
        setting = KNOWN_SETTINGS[name]
        is_switch = setting.kind is bool and setting.only != "option"
        function = option(
            f"{setting.option}/--no-{setting.option.removeprefix('--')}" if is_switch else setting.option,
            name,
            type=FILE if setting.kind is Path else setting.kind,
            is_flag=setting.kind is bool,
            default=None,
            metavar=setting.metavar,
            help=setting.help,
            show_default=setting.default if setting.only is None and setting.default else False,
            heading=setting.panel or "Options",
        )(function)
    return function


@command()
@option("--config", type=FILE, metavar="FILE", help="Settings file (TOML).")
@_setting_options
@option("--show-config", is_flag=True, help="Print all settings and the source of each, and exit.")
def serve(*, config: Path | None = None, show_config: bool = False, **options: Any) -> None:
    """Run a protected 'people nearby' service that answers from noisy locations.

    No other software is needed: the store is a file, and keys are created at the first start. An option overrides a
    NEARVEIL_… variable, and a variable overrides the settings file. Rare settings have no option: --show-config lists
    all.
    """
    settings = Settings.load(config, os.environ, options)
    if show_config:
        say(settings.show().rstrip())
        return
    _serve(settings)


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
    if service.protection.schedule.window < _SHORT_WINDOW:
        warn(
            "every budget window allows new places, so with windows this short whoever moves a lot gives away more; "
            "choose a longer --window, such as 30d"
        )
    if settings.chained_reports == "if-sent":
        warn(
            "reports without a receipt are taken (chained_reports = if-sent): a stolen key or token finds most people "
            "whose phones report in some hours and are silent in others; let phones send 'previous', and leave it out"
        )
    if settings.test_hooks:
        warn("test hooks are on: a platform key can advance the epoch")
