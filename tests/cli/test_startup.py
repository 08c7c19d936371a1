"""The list of verbs loads none of them, and says what each says of itself."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("release", [["--mechanism", "planar-laplace"], ["--centres", "20"]])
def test_protect_starts_without_scipy(release: list[str], tmp_path: Path) -> None:
    """Loading it would take longer than protecting a million people."""
    rows = "".join(f"{row},{37.6 + row / 9000},{-122.5 + row % 97 / 900}\n" for row in range(900))
    (tmp_path / "in.csv").write_text(f"id,latitude,longitude\n{rows}", encoding="utf-8")
    script = (
        "import sys\nfrom nearveil.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    print('loaded:', *(name for name in ('scipy.spatial', 'scipy.linalg') if name in sys.modules))"
    )
    command = [sys.executable, "-c", script, "protect", "in.csv", "out.csv", *release]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout.splitlines()[-1] == "loaded:"


def test_whoever_sees_no_bar_and_no_help_does_not_wait_for_rich() -> None:
    script = "import sys\nimport nearveil.cli.protect, nearveil.cli.main\nprint('rich' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_public_names_are_loaded_when_they_are_asked_for() -> None:
    for name in nearveil.__all__:
        # The package nearveil.audit is a public name itself: it can be called.
        assert getattr(nearveil, name).__name__.removeprefix("nearveil.") == name
        assert name in dir(nearveil)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = nearveil.Nothing


def test_garbage_is_collected_once_everything_is_loaded() -> None:
    script = (
        "import gc, sys\nfrom nearveil_command import main\nsys.argv = ['nearveil', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    print(gc.isenabled(), gc.get_freeze_count() > 0)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "True True"
