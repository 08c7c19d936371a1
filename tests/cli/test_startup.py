"""The list of verbs loads none of them, and says what each says of itself."""

import importlib
import inspect
import subprocess
import sys

import pytest
import typer

import nearveil
from nearveil.cli.main import VERBS

HEAVY = ("numba", "scipy", "pyarrow", "matplotlib", "fastapi", "pyproj", "numpy")


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_says_what_the_verb_says(verb: str) -> None:
    name = verb.replace("-", "_")
    module = importlib.import_module(f"nearveil.cli.{name}")
    group = getattr(module, f"{name}_app", None)
    if isinstance(group, typer.Typer):
        says = group.info.help or inspect.getdoc(group.registered_callback.callback)  # type: ignore[union-attr]
    else:
        says = inspect.getdoc(getattr(module, name))
    assert str(says).split("\n\n")[0].replace("\n", " ") == VERBS[verb]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_nothing_heavy_is_loaded_for_the_list(arguments: list[str]) -> None:
    script = (
        "import sys\nsys.argv[0] = 'nearveil'\nfrom nearveil_command import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print('loaded:', *loaded)"
    )
    shown = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "loaded:"
    if arguments != ["--version"]:
        assert all(verb in shown.stdout for verb in VERBS)


def test_public_names_are_loaded_when_they_are_asked_for() -> None:
    for name in nearveil.__all__:
        assert getattr(nearveil, name).__name__ == name or name in ("Noise",)
        assert name in dir(nearveil)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = nearveil.Nothing
