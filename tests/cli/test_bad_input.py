"""Bad input: one clear sentence, an exit code, nothing written, no traceback and no coordinate."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, check

ENOUGH = "id,latitude,longitude\n" + "".join(f"{row},{37.6 + row / 1e4:.4f},-122.4{row:03d}\n" for row in range(900))
DPRS = ("--mechanism", "dprs", "--region", "san-francisco")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(ENOUGH)
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*DPRS, "--epsilon", "0"), ["epsilon must lie between"]),
        ((*DPRS, "--epsilon", "1", "--noise", "500m"), ["goes with the release metric", "interval takes"]),
        ((*DPRS, "--set", "least_radius_m=0m"), ["--set least_radius_m takes a length"]),
        ((*DPRS, "--set", "gama=0.3"), ["--set gama cannot be used with dprs", "did you mean gamma?", "--set centres"]),
        (("--mechanism", "planar-laplace", "--epsilon", "1"), ["--epsilon cannot be used with", "which takes --noise"]),
        (("--mechanism", "srr", "--noise", "500m"), ["--noise cannot be used with srr"]),
        (("--mechanism", "magic"), ["there is no mechanism 'magic'", "planar-laplace"]),
        (("--noise", "0"), ["--noise takes a length"]),
        (("--epsilon", "1"), ["--mechanism dprs --epsilon 1", "--noise 500m"]),
        (("--region", "37.5,-122.6,37.5,-122.2"), ["no area"]),
        (("--region", "atlantis"), ["there is no region named 'atlantis'"]),
        (("--set", "gamma"), ["--set takes a parameter and its value"]),
        (("--set", "gamma=0.3", "--set", "gamma=0.4"), ["--set gamma: given twice"]),
        (("--noise", "1km", "--set", "noise_m=1km"), ["--noise and --set noise_m are the same"]),
        (("--set", "region=berlin"), ["region: this cannot be set"]),
        (("--columns", "a,,b"), ["--columns takes a different name for each column"]),
    ],
)
def test_options(run: Run, source: Path, tmp_path: Path, options: tuple[str, ...], words: list[str]) -> None:
    check(run("protect", source, tmp_path / "out.csv", *options), 2, *words)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_a_slip_in_an_option_names_the_help(run: Run) -> None:
    refused = run("protect", "in.csv", "out.csv", "--nois", "500m")
    assert (refused.code, refused.out) == (2, "")
    assert "--noise" in refused.err
    assert refused.err.endswith("See 'nearveil protect --help'.\n")


@pytest.mark.parametrize("name", ["out.csv", "out.geojson", "out.parquet"])
def test_a_folder_that_may_not_be_written(run: Run, source: Path, name: str) -> None:
    """It is the kernel's, so that not even root may."""
    check(run("protect", source, Path("/proc/self") / name), 4, "cannot be written")


def test_a_bug_shows_no_values(run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a failure of Nearveil's own prints no data, as a traceback's message might."""

    def fail(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("somebody is at 37.7123, -122.4123")

    monkeypatch.setattr("nearveil.release.protect.protect", fail)
    check(run("protect", source, tmp_path / "out.csv"), 1, "RuntimeError", "NEARVEIL_DEBUG")
    monkeypatch.setenv("NEARVEIL_DEBUG", "1")
    outcome = run("protect", source, tmp_path / "out.csv")
    assert (outcome.code, "Traceback" in outcome.err) == (1, True)
    # Of an audit, 1 would be a verdict.
    monkeypatch.delenv("NEARVEIL_DEBUG")
    monkeypatch.setattr("nearveil.cli.audit.run_audit", fail)
    check(run("audit", "--samples", 2000), 4, "RuntimeError")
