"""``nearveil certify`` and ``nearveil guarantee``: numbers that anyone can check, and what they mean in plain words."""

import json
from pathlib import Path

import pytest

from nearveil import DPRS
from nearveil.auditing.certificate import MechanismCertificate, certify, check_certificate
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def certificate_text() -> str:
    return certify(fitted_on_made_up_people(DPRS(epsilon=1.0, centres=20, region="san-francisco"))).to_json()


@pytest.fixture
def certificate(certificate_text: str, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    path = tmp_path / "certificate.json"
    path.write_text(certificate_text)
    return path


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand pairs of places instead of twenty: a check takes a tenth of the time."""
    defaults = MechanismCertificate.check.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "tries", 2_000)


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--noise", "200m"),
        ("--mechanism", "dprs", "--epsilon", 3, "--set", "noise=gaussian", "--set", "centres=20"),
        ("--mechanism", "dprs", "--set", "release=paper", "--set", "centres=20"),
        ("--mechanism", "srr"),
        ("--mechanism", "square", "--epsilon", 2),
        ("--mechanism", "laplace"),
        ("--mechanism", "planar-laplace", "--region", "paris"),
        ("--hide-among", 2000),
    ],
)
def test_every_mechanism_can_be_certified(run: Run, tmp_path: Path, options: tuple[object, ...]) -> None:
    path = tmp_path / "c.json"
    outcome = run("certify", *options, "--out", path, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["certificate"]["bound"] <= document["epsilon"] * (1 + 1e-12)
    assert run("certify", "--check", path).code == 0
    # Nothing is lost by a second run that may not replace the file.
    assert run("certify", *options, "--out", path).code == 4


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bound": 0.9}, "bound is below"),
        ({"attained": 0.5}, "do not attain"),
        ({"second": [0.0, 0.0]}, "do not attain"),
    ],
)
def test_a_certificate_that_was_tampered_with_does_not_hold(
    run: Run, certificate: Path, change: dict[str, object], words: str
) -> None:
    document = json.loads(certificate.read_text())
    document["guarantee"]["certificate"].update(change)
    certificate.write_text(json.dumps(document))
    outcome = run("certify", "--check", certificate)
    assert outcome.code == 3
    assert "does not hold" in outcome.err
    assert words in outcome.err
    assert json.loads(run("certify", "--check", certificate, "--json").out)["holds"] is False


@pytest.fixture(scope="module")
def cells_certificate(city: FloatArray, san_francisco: Region) -> str:
    cells = cells_from_points(city, san_francisco, CellPlan(hide_among=500))
    return certify(HideAmong(500, epsilon=1.5, cells=cells)).to_json()


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize("change", ["rate", "weight", "depths", "people", "nothing"])
def test_everything_about_cells_is_computed_anew(cells_certificate: str, change: str, tmp_path: Path) -> None:
    """Another rate, weight or cell loses more than is stated; another number of people makes the promise false."""
    document = json.loads(cells_certificate)
    params = document["subject"]["params"]
    if change == "rate":
        params["calibration"]["rate"] *= 1.01
    if change == "weight":
        params["calibration"]["weights"][7] *= 3
    if change == "depths":
        # The first largest box that is not cut is cut once.
        depths, place = params["cells"]["depths"], params["cells"]["depths"].index(0)
        depths[place : place + 1] = [1] * 4
        for numbers in (params["cells"]["people"], params["calibration"]["weights"]):
            numbers[place : place + 1] = numbers[place : place + 1] * 4
    if change == "people":
        params["cells"]["people"] = [3 * people for people in params["cells"]["people"]]
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document))
    found = check_certificate(path)
    assert found.holds == (change == "nothing"), found.faults
    if change == "nothing":
        assert 1.2 < found.worst_tried <= found.bound <= 1.5


@pytest.mark.usefixtures("few_tries")
@pytest.mark.parametrize(
    "change",
    [{"delta": 0.0}, {"protects": "everything"}, {"notes": []}, {"also": []}, {"holds": False}, {"more": "words"}],
)
def test_a_card_that_was_rewritten_is_noticed(run: Run, certificate: Path, change: dict[str, object]) -> None:
    document = json.loads(certificate.read_text())
    document["guarantee"].update(change)
    certificate.write_text(json.dumps(document))
    outcome = run("certify", "--check", certificate)
    assert (outcome.code, "does not promise what the file states" in outcome.err) == (3, True)


@pytest.mark.usefixtures("few_tries")
def test_intervals_that_hide_their_cost_are_refused(run: Run, certificate: Path) -> None:
    document = json.loads(certificate.read_text())
    document["subject"]["params"]["intervals"]["budget"]["laplace_answers"] = []
    certificate.write_text(json.dumps(document))
    assert run("certify", "--check", certificate).code == 3


def test_files_that_are_no_certificates(run: Run, tmp_path: Path, certificate: Path) -> None:
    damaged = tmp_path / "damaged.json"
    for text in ("{}", "[1]", "not json", certificate.read_text()[:-30]):
        damaged.write_text(text)
        outcome = run("certify", "--check", damaged)
        assert (outcome.code, len(outcome.err.strip().splitlines())) == (3, 1)
    assert run("certify", "--check", tmp_path / "none.json").code == 3
    assert run("certify", "--check", certificate, "--epsilon", 1).code == 2


@pytest.mark.parametrize("verb", ["guarantee", "certify"])
def test_without_options_they_speak_of_the_default_of_protect(run: Run, verb: str) -> None:
    promise = json.loads(run(verb, "--json").out)
    assert (promise["definition"], promise["epsilon"], promise["unit"]) == ("metric", 0.004, "per meter")
    # No intervals, and nothing said of a made-up city.
    assert promise["also"] == []
    assert [note for note in promise["notes"] if "ellipsoid" not in note] == []
