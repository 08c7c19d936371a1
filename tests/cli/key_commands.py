"""``nearveil keys`` as tests run it, at a moment of their choice."""

import time

import pytest
from typer.testing import CliRunner, Result

from nearveil.cli.keys import keys_app
from nearveil.errors import NearveilError

DAY_S = 86_400


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(keys_app, [str(argument) for argument in arguments])
    if isinstance(result.exception, NearveilError):
        raise result.exception
    return result


def at(monkeypatch: pytest.MonkeyPatch, moment: float) -> None:
    monkeypatch.setattr(time, "time", lambda: moment)
