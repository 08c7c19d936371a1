"""Bad input: one clear sentence, an exit code, nothing written, no traceback and no coordinate."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearveil.errors import DataError
from tests.cli.conftest import Outcome, Run

HEADER = "id,latitude,longitude\n"
GOOD = "1,37.7123,-122.4123\n"
ENOUGH = HEADER + "".join(f"{row},{37.6 + row / 1e4:.4f},-122.4{row:03d}\n" for row in range(900))


OR_SKIP = ", or leave such rows out with --skip-bad FILE"


def check(outcome: Outcome, code: int, *words: str) -> None:
    assert outcome.code == code, outcome
    assert outcome.out == ""
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    for secret in ("Traceback", "7123", "4123", "-122.4"):
        assert secret not in outcome.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["there is no file", "people.csv"]),
        ("id,name\n1,a\n", ["no coordinate columns", "--latitude"]),
        (HEADER + GOOD + "2,nan,-122.4123\n", ["row 2", "missing or infinite", OR_SKIP]),
        (HEADER + GOOD + "2,95,-122.4123\n", ["row 2", "latitude is not between -90 and 90", OR_SKIP]),
        (HEADER + "1,-122.4123,37.7123\n", ["row 1", "exchanged"]),
        (
            HEADER + GOOD + "2,48.85,2.35\n",
            ["row 2", "outside the region san-francisco", "--region", OR_SKIP],
        ),
    ],
)
def test_data(run: Run, tmp_path: Path, content: str | None, words: list[str]) -> None:
    source = tmp_path / "people.csv"
    if content is not None:
        source.write_text(content)
    check(run("protect", source, tmp_path / "out.csv"), 3, *words)
    assert [path.name for path in tmp_path.iterdir()] == ([source.name] if content is not None else [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "0"], ["epsilon must lie between"]),
        (["--set", "release=paper", "--set", "delta=0"], ["delta must be greater than 0 and at most 0.1"]),
        (["--set", "fit_method=pic", "--set", "rounds=0"], ["rounds"]),
        (["--region", "37.5,-122.6,37.5,-122.2"], ["no area"]),
        (
            ["--mechanism", "planar-laplace", "--epsilon", "1"],
            ["--epsilon cannot be used with planar-laplace", "--noise"],
        ),
        (["--mechanism", "srr", "--noise", "500m"], ["--noise cannot be used with srr"]),
        (["--epsilon", "1", "--noise", "500m"], ["goes with the release metric", "interval takes"]),
        (["--set", "release=metric", "--epsilon", "1"], ["the release metric takes"]),
        (["--set", "least_radius_m=0m"], ["--set least_radius_m takes a length"]),
        (["--noise", "0"], ["--noise takes a length"]),
        (["--noise", "500m", "--set", "epsilon_per_km=4"], ["give one of them"]),
        (["--noise", "1e8km"], ["at most 500 km"]),
        (["--set", "epsilon_per_km=-4"], ["epsilon per km must be greater than 0"]),
        (["--region", "37.7000001,-122.41,37.7000002,-122.40"], ["smaller than about 100 m"]),
        (["--set", "gama=0.3"], ["gama is not a parameter", "did you mean gamma?", "--mechanism"]),
        (["--mechanism", "dprs", "--set", "gama=0.3"], ["dprs has no parameter gama", "gamma?", "centres, delta"]),
        (["--set", "gamma"], ["--set takes a parameter and its value"]),
        (["--set", "gamma=0.3", "--set", "gamma=0.4"], ["--set gamma is given twice"]),
        (["--set", "epsilon=1"], ["epsilon has an option of its own; use --epsilon"]),
        (["--set", "region=berlin"], ["region cannot be set"]),
        (["--seed", "-1"], ["seed"]),
    ],
)
def test_options(run: Run, tmp_path: Path, options: list[str], words: list[str]) -> None:
    source = tmp_path / "people.csv"
    source.write_text(ENOUGH)
    check(run("protect", source, tmp_path / "out.csv", *options), 2, *words)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_files_that_are_not_what_they_seem(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text(ENOUGH)
    check(run("protect", source, tmp_path / "out.xlsx"), 2, "format of out.xlsx")
    (tmp_path / "in.json").write_text("{}")
    check(run("protect", source, tmp_path / "o.csv", "--intervals", tmp_path / "in.json"), 3, "not an intervals file")
    check(run("protect", source, tmp_path / "o.csv", "--intervals", tmp_path / "none.json"), 3, "cannot be read")
    check(run("protect", tmp_path, tmp_path / "o.csv"), 2, "format")
    check(run("fit", source, tmp_path / "out.csv"), 2, ".json")


def test_the_input_is_never_written_over(run: Run, tmp_path: Path) -> None:
    source, link = tmp_path / "people.csv", tmp_path / "link.csv"
    source.write_text(ENOUGH)
    link.symlink_to(source)
    for output in (source, link, tmp_path / "." / "people.csv"):
        check(
            run("protect", source, output, "--force", "--mechanism", "planar-laplace"), 2, "true places would be lost"
        )
    assert source.read_text() == ENOUGH


def test_existing_output_is_kept(run: Run, tmp_path: Path) -> None:
    source, output = tmp_path / "people.csv", tmp_path / "out.csv"
    source.write_text(ENOUGH)
    output.write_text("precious")
    # A failure later on does not touch it, even with --force.
    source.write_text(HEADER + GOOD)
    check(run("protect", source, output, "--force", "--set", "centres=5"), 3, "two people or more")
    assert output.read_text() == "precious"


COMMAND = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
# Protects a file once for each output, and prints what the command would have left with.
EACH = """
import sys
from nearveil.cli.main import main
source, *outputs = sys.argv[1:]
for output in outputs:
    sys.argv = ["nearveil", "protect", source, output, "--mechanism", "planar-laplace"]
    try:
        main()
    except SystemExit as stop:
        print(stop.code)
"""


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """A real process that may write 20 kB at most to a file: the write fails half way, for every format."""
    source = tmp_path / "people.csv"
    source.write_text(ENOUGH)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    outputs = [str(tmp_path / name) for name in ("out.csv", "out.geojson", "out.parquet")]
    # Numba's own cache files are larger than the limit; they are not what is tested.
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", EACH, str(source), *outputs]
    result = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=limit, env=environment)
    assert result.stdout.split() == ["4"] * 3, result.stderr
    sentences = result.stderr.strip().splitlines()
    assert len(sentences) == 3
    for sentence, output in zip(sentences, outputs, strict=True):
        assert sentence.startswith("error: ")
        assert output in sentence
        assert "cannot be written" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


@pytest.fixture
def locked_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be written to: for root, who may write anywhere, one on a read-only file system."""
    folder = tmp_path / "locked"
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield folder
        return
    mounted = [["mount", "-t", "tmpfs", "tmpfs", str(folder)], ["mount", "-o", "remount,ro", str(folder)]]
    if any(subprocess.run(command, capture_output=True, check=False).returncode for command in mounted):
        # No right to mount here; nothing can be written to this one either.
        yield Path("/proc/self")
        return
    yield folder
    subprocess.run(["umount", folder], check=True)  # noqa: S607


@pytest.mark.parametrize("name", ["out.csv", "out.geojson", "out.parquet"])
def test_a_folder_that_may_not_be_written(run: Run, tmp_path: Path, locked_folder: Path, name: str) -> None:
    source = tmp_path / "people.csv"
    source.write_text(ENOUGH)
    check(run("protect", source, locked_folder / name, "--noise", "500m"), 4, "cannot be written")


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        ("leave it out with skip_bad=FILE, or give region=", "leave it out with --skip-bad FILE, or give --region"),
        ("rows repeat: per_row=True says so", "rows repeat: --per-row says so"),
        ("noise_m=500, or noise_m=, is missing", "--noise 500m, or --noise, is missing"),
        ("try gamma=0.3 and gamma=", "try --set gamma=0.3 and --set gamma=VALUE"),
        ("names are columns=id,lat,lon; crs=EPSG:25833.", "names are --columns id,lat,lon; --crs EPSG:25833."),
        ("the file says strange=3 and --set gamma=2", "the file says strange=3 and --set gamma=2"),
    ],
)
def test_parameters_in_errors_of_the_library_are_named_as_options(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, shown: str
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise DataError(raised)

    monkeypatch.setattr("nearveil.cli.protect.protect_file", fail)
    outcome = run("protect", "in.csv", tmp_path / "out.csv", "--mechanism", "dprs")
    assert (outcome.code, outcome.err) == (3, f"error: {shown}\n")


def test_a_bug_shows_no_values(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a failure of Nearveil's own prints no data, as a traceback's message might."""
    source = tmp_path / "people.csv"
    source.write_text(ENOUGH)

    def fail(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("somebody is at 37.7123, -122.4123")

    monkeypatch.setattr("nearveil.release.protect.publish_stream", fail)
    check(run("protect", source, tmp_path / "out.csv", "--noise", "500m"), 1, "RuntimeError", "NEARVEIL_DEBUG")
    monkeypatch.setenv("NEARVEIL_DEBUG", "1")
    outcome = run("protect", source, tmp_path / "out2.csv", "--noise", "500m")
    assert (outcome.code, "Traceback" in outcome.err) == (1, True)
