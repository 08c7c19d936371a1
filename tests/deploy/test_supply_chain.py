"""What is pinned is pinned everywhere alike and by hash, and the wheel is the same however it is built."""

import os
import re
import shutil
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from deploy.build_wheel import build_wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
HASHED = ("constraints-hashed.txt", "deploy/requirements.txt", "deploy/build-requirements.txt", "deploy/tools.txt")
IN_STEP = "run 'make lock'"


def pins(name: str) -> dict[str, str]:
    """Return the version of each package of a file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [line.split(" ")[0].split("==") for line in lines if line and not line.startswith((" ", "#"))]
    return {canonicalize_name(package): version for package, version in found}


def hashes(name: str) -> dict[str, frozenset[str]]:
    """Return the hashes of each package of a file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    parts = re.findall(r"^(\S+)==\S+ \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    assert "".join(f"{line}\n" for line in text.splitlines() if line.startswith("    ")) == "".join(
        part for _, part in parts
    ), "something beside packages and hashes"
    return {canonicalize_name(package): frozenset(re.findall("[0-9a-f]{64}", part)) for package, part in parts}


def needed(extra: str) -> set[str]:
    """Return all packages that an installation with an extra needs here, as the installed packages say."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own, extras_left = [Requirement(line) for line in project["dependencies"]], [extra]
    while extras_left:
        lines = [Requirement(line) for line in project["optional-dependencies"][extras_left.pop()]]
        own += [line for line in lines if line.name != "nearveil"]
        extras_left += [each for line in lines if line.name == "nearveil" for each in line.extras]
    direct = [one for one in own if one.marker is None or one.marker.evaluate()]
    waiting, seen = [(canonicalize_name(one.name), frozenset(one.extras)) for one in direct], set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for line in requires(name) or ():
            wanted = Requirement(line)
            applies = wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in ("", *extras))
            if applies:
                waiting.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return {name for name, _ in seen}


def test_every_pinned_version_has_hashes() -> None:
    assert pins("constraints-hashed.txt") == pins("constraints.txt"), IN_STEP
    for name in HASHED:
        assert hashes(name).keys() == pins(name).keys(), f"{name}: {IN_STEP}"


def test_the_image_has_what_the_service_needs_and_nothing_else() -> None:
    image, tested = pins("deploy/requirements.txt"), pins("constraints.txt")
    assert set(image) == needed("serve"), IN_STEP
    assert set(pins("deploy/build-requirements.txt")) == {
        "hatchling",
        "packaging",
        "pathspec",
        "pluggy",
        "tomlkit",
        "trove-classifiers",
    }
    known = hashes("constraints-hashed.txt")
    for name in ("deploy/requirements.txt", "deploy/build-requirements.txt"):
        assert pins(name).items() <= tested.items(), IN_STEP
        assert hashes(name).items() <= known.items(), IN_STEP


@pytest.mark.parametrize("name", [*HASHED, "constraints.txt", "pyproject.toml", "Makefile", "Dockerfile"])
def test_no_file_names_a_registry(name: str) -> None:
    """Which one is used is for whoever builds to say."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"--(?:extra-)?index-url|--find-links|--trusted-host|https?://\S*(?:pypi|simple)\S*", text) == []


def test_the_wheel_is_the_same_in_another_folder_time_zone_and_umask(tmp_path: Path) -> None:
    wheels = []
    for number, way in enumerate(({"TZ": "UTC", "umask": "022"}, {"TZ": "Pacific/Auckland", "umask": "077"})):
        source = tmp_path / f"folder {number}"
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
        for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
            shutil.copy(ROOT / name, source)
        # Copies have the times of the originals; those of a fresh clone are others.
        for file in source.rglob("*.py"):
            os.utime(file, (10**9 * (number + 1),) * 2)
        wheels.append(build_wheel(source, epoch="1700000000", way=way))
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    kept = {file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src").rglob("*") if file.is_file()}
    kept = {name for name in kept if "__pycache__" not in name and ".egg-info" not in name}
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == kept
        assert {info.date_time[:3] for info in wheel.infolist()} == {(2023, 11, 14)}
