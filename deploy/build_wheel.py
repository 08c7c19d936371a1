"""Build the wheel twice, in different folders, and keep it only if both have the same bytes.

    python deploy/build_wheel.py dist

Built is the last commit, not the working tree: what is not committed is in no wheel. Times in the wheel are that of the
commit, so that everybody who builds the commit with the same version of hatchling gets the same bytes. The folders
differ in path, permissions and time zone, which must not matter.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
_WAYS = ({"TZ": "UTC", "umask": "022"}, {"TZ": "Pacific/Auckland", "umask": "077"})


def main(target: Path) -> int:
    """Build, compare, and write the wheel and its SHA-256 into the target folder; 1 if the two differ."""
    commit = _git("rev-parse", "HEAD").decode().strip()
    epoch = _git("log", "-1", "--format=%ct").decode().strip()
    archive = _git("archive", "HEAD")
    with tempfile.TemporaryDirectory(prefix="nearveil-wheel-") as folder:
        wheels = [
            build_wheel(_unpacked(archive, Path(folder) / str(number)), epoch=epoch, way=way)
            for number, way in enumerate(_WAYS)
        ]
        digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
        if digests[0] != digests[1]:
            print(f"two builds of commit {commit} differ: {digests[0]} and {digests[1]}", file=sys.stderr)
            return 1
        target.mkdir(parents=True, exist_ok=True)
        (target / wheels[0].name).write_bytes(wheels[0].read_bytes())
        (target / f"{wheels[0].name}.sha256").write_text(f"{digests[0]}  {wheels[0].name}\n")
    print(f"{target / wheels[0].name}: twice the same bytes, SHA-256 {digests[0]}, commit {commit}")
    return 0


def build_wheel(source: Path, *, epoch: str, way: dict[str, str]) -> Path:
    """Build the wheel of a source tree into its folder ``dist``, in a time zone and with a umask."""
    output = source / "dist"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "TZ": way["TZ"], "PYTHONHASHSEED": "random"}
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(output)],
        cwd=source,
        env=environment,
        umask=int(way["umask"], 8),
        check=True,
        capture_output=True,
        text=True,
    )
    return output / done.stdout.splitlines()[-1]


def _unpacked(archive: bytes, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, capture_output=True).stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
