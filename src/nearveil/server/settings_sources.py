"""Where settings come from: a TOML file, then the environment, then options; the last one counts."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nearveil.errors import UsageError
from nearveil.server.settings_values import Reader, masked


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: how it is read, and what it is called.

    Attributes
    ----------
    variable, option : str
        What it is called in the environment and on the command line.
    only : str, optional
        The one source that it may come from.
    """

    name: str
    read: Reader
    help: str
    variable: str
    option: str
    only: Literal["environment", "option"] | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as somebody wrote it, where, and what to call it in an error."""

    setting: Setting
    value: object
    source: str
    label: str


def gather(
    settings: Iterable[Setting], config: Path | None, environ: Mapping[str, str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that are not the defaults, and the source of every value."""
    known = {setting.name: setting for setting in settings}
    chosen: dict[str, Any] = {}
    sources = dict.fromkeys(known, "default")
    for given in (*_from_file(known, config), *_from_environment(known, environ), *_from_options(known, options)):
        chosen[given.setting.name] = given.setting.read(given.value, given.label)
        sources[given.setting.name] = given.source
    return chosen, sources


def _from_file(known: Mapping[str, Setting], config: Path | None) -> Iterator[_Given]:
    if config is None:
        return
    for name, value in _document(config).items():
        setting = _named(known, name, f"the settings file {config}")
        if setting.only == "environment":
            raise UsageError(f"{name} does not belong into a settings file; put it into {setting.variable}")
        if setting.only == "option":
            raise UsageError(f"{name} does not belong into a settings file; it is the option {setting.option}")
        yield _Given(setting, value, f"file {config}", f"{name} in {config}")


def _document(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the settings file {config} cannot be read ({error.strerror}); name another") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        # The parser's own words would repeat a line of the file, which may hold a password.
        raise UsageError(f"the settings file {config} is not TOML; write lines such as port = 8000") from None


def _from_environment(known: Mapping[str, Setting], environ: Mapping[str, str]) -> Iterator[_Given]:
    # Other variables may begin alike: those of other commands, and what containers set by themselves.
    for setting in known.values():
        value = environ.get(setting.variable)
        if value is not None and setting.only != "option":
            yield _Given(setting, value, f"environment {setting.variable}", setting.variable)


def _from_options(known: Mapping[str, Setting], options: Mapping[str, Any]) -> Iterator[_Given]:
    for name, value in options.items():
        setting = _named(known, name, "the command line")
        if setting.only == "environment":
            raise UsageError(f"{name} would be seen by everybody on this machine; put it into {setting.variable}")
        if value is not None:
            yield _Given(setting, value, f"option {setting.option}", setting.option)


def _named(known: Mapping[str, Setting], name: str, where: str) -> Setting:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.replace("-", "_").lower(), known, n=1, cutoff=0.0)
    raise UsageError(f"{where} has {name[:40]!r}, which is no setting; did you mean {near[0]!r}?")


def as_toml(setting: Setting, value: object, source: str) -> str:
    """Return one line of a settings file, with the source in a comment; secrets are masked."""
    if setting.only == "environment":
        return f"# {setting.name} {'is not set' if value is None else 'is not shown'}  # {source}"
    if value is None:
        return f"# {setting.name} is not set  # {source}"
    shown = value if isinstance(value, bool | int | float) else masked(str(value))
    line = f"{setting.name} = {json.dumps(shown, ensure_ascii=False)}  # {source}"
    return f"# {line}" if setting.only == "option" else line
