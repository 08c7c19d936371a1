"""Classes from outside the package that no command can use: each is refused in a sentence."""

from pathlib import Path

import pytest

from nearveil.errors import UsageError
from nearveil.mechanisms.registry import mechanism_entry

OWN = """
import numpy as np
import nearveil as nv

class Shared(nv.Mechanism):
    def __init__(self, *, region="san-francisco"):
        self.region = region

    def draw(self, x, rows):
        return x + np.random.default_rng().normal(size=x.shape)

    @property
    def guarantee(self):
        return nv.Guarantee.claimed_by_nobody()

class Broken(Shared):
    def draw(self, x, rows):
        raise RuntimeError("out of order")

class Short(Shared):
    def draw(self, x, rows):
        return x[:-1]

class Namesake(Shared):
    name = "planar-laplace"

class NoMechanism:
    pass
"""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nobodys", "there is no mechanism 'nobodys'.*planar-laplace"),
        ("missing.py:Mine", "there is no file missing.py"),
        ("{file}:NoMechanism", "must be a class that inherits from nearveil.Mechanism"),
        ("{file}:Shared", "when drawn again"),
        ("{file}:Missing", "there is no class Missing"),
        ("{file}:Short", "not one published"),
        ("{file}:Namesake", "give it another name"),
        ("{file}:Broken", "it fails with RuntimeError: out of order"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(name: str, sentence: str, tmp_path: Path) -> None:
    own_file = tmp_path / f"others_{abs(hash(name))}.py"
    own_file.write_text(OWN)
    with pytest.raises(UsageError, match=sentence):
        mechanism_entry(name.format(file=own_file))
