"""The steps of the Dockerfile in a folder, without a container engine and without downloads.

Packages that are installed here, and code that is compiled already, stand for those of the image.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

from nearveil.server.warm_up import compile_all

ROOT = Path(__file__).parents[2]
_STEP = re.compile(r"^([A-Z]+)\s+((?:.*\\\n)*.*)$", re.MULTILINE)


@dataclass
class Stage:
    """One stage of the Dockerfile: its steps in order, as pairs of a word and the rest."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def values(self, word: str) -> list[str]:
        """Return the rest of every step with a word."""
        return [rest for step, rest in self.steps if step == word]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the stage sets."""
        pairs = [word.split("=", 1) for rest in self.values("ENV") for word in shlex.split(rest)]
        return dict(pairs)


def stages() -> list[Stage]:
    """Read the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: list[Stage] = []
    for word, rest in _STEP.findall(text):
        joined = re.sub(r"\\\n\s*", "", rest)
        if word == "FROM":
            found.append(Stage(joined.rpartition(" AS ")[2] if " AS " in joined else ""))
        else:
            found[-1].steps.append((word, joined))
    return found


@dataclass
class Image:
    """What the steps have built: a folder that stands for the root of the file system."""

    root: Path

    def inside(self, path: str) -> Path:
        """Return where a path of the image is here."""
        return self.root / path.lstrip("/")

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the last stage, with paths as they are here."""
        values = stages()[-1].environment
        return {name: str(self.inside(value)) if value.startswith("/") else value for name, value in values.items()}


def built(root: Path) -> Image:
    """Run the steps in a new folder."""
    image = Image(root)
    first, last = stages()
    source = image.inside(first.values("WORKDIR")[0])
    source.mkdir(parents=True)
    variables = {
        name: str(image.inside(value)) if value.startswith("/") else value for name, value in first.environment.items()
    }
    # Code that the tests have compiled is for this processor.
    variables.pop("NUMBA_CPU_NAME")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NEARVEIL_", "NUMBA_"))}
    environment = {**kept, "HOME": str(root / "home"), **variables}
    for word, rest in first.steps:
        if word == "COPY":
            _copy(rest, source)
        elif word == "RUN":
            _run(rest, source, environment)
            if "warm_up" not in rest and ".whl" in rest:
                _take_compiled_code(Path(variables["APP"]))
    for rest in last.values("COPY"):
        *options, origin, target = shlex.split(rest)
        if any(option.startswith("--from=") for option in options):
            if origin != target:
                shutil.copytree(image.inside(origin), image.inside(target))
        else:
            shutil.copy(ROOT / origin, image.inside(target))
    return image


def _copy(rest: str, source: Path) -> None:
    *origins, target = shlex.split(rest)
    for origin in origins:
        if (ROOT / origin).is_dir():
            # .dockerignore leaves these out.
            shutil.copytree(ROOT / origin, source / target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            (source / target).mkdir(exist_ok=True)
            shutil.copy(ROOT / origin, source / target)


def _run(command: str, source: Path, environment: dict[str, str]) -> None:
    if "--require-hashes" in command:
        # What it would install is installed here, in the versions of constraints.txt.
        folder = environment["APP" if "$APP" in command else "BUILD"]
        packages = Path(folder) / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        here = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "installed.pth").write_text("\n".join(here) + "\n")
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=source,
        env={**environment, "PATH": path},
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"RUN {command}\n{done.stdout}{done.stderr}"


def _take_compiled_code(app: Path) -> None:
    """Put what was compiled in this repository beside the same source files of the image."""
    # What is not compiled yet, other tests need too.
    compile_all()
    package = next(app.glob("lib/*/site-packages/nearveil"))
    for file in (ROOT / "src" / "nearveil").rglob("__pycache__/*.nb[ic]"):
        target = package / file.relative_to(ROOT / "src" / "nearveil")
        target.parent.mkdir(exist_ok=True)
        # With the time of now: it must be newer than the sources.
        shutil.copyfile(file, target)


def make_read_only(folder: Path) -> None:
    """Take away every right to write, the owner's too."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555)


def make_writable(folder: Path) -> None:
    """Give the owner the right to write back, so that it can be deleted."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
