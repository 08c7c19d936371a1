"""``nearveil keys`` as tests run it."""

from click.testing import CliRunner, Result

from nearveil.cli.keys import keys
from nearveil.errors import NearveilError


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(keys, [str(argument) for argument in arguments])
    if isinstance(result.exception, NearveilError):
        raise result.exception
    return result
