"""``nearveil certify`` and ``nearveil guarantee``: what holds, as a file that anyone can check, and in words."""

import json
from pathlib import Path

import pytest

from tests.acceptance.helpers import REGION, done, run


@pytest.mark.parametrize(
    ("options", "definition", "epsilon"),
    [
        (("--noise", "500m"), "metric", 0.004),
        (("--mechanism", "srr", "--epsilon", 1), "local", 1),
        (("--mechanism", "dprs", "--epsilon", 1), "interval", 1),
    ],
)
def test_a_certificate_can_be_checked_from_its_file_alone(
    tmp_path: Path, options: tuple[str, ...], definition: str, epsilon: float
) -> None:
    path = tmp_path / "certificate.json"
    made = done("certify", "--region", REGION, *options, "--out", path, "--json").json
    assert made["definition"] == definition
    assert made["epsilon"] == pytest.approx(epsilon, rel=0.01)
    assert made["certificate"]["attained"] <= made["certificate"]["bound"] <= made["epsilon"] * (1 + 1e-9)
    check = done("certify", "--check", path, "--json").json
    assert (check["holds"], check["faults"]) == (True, [])
    assert check["worst_tried"] <= check["bound"]


def test_a_certificate_that_promises_more_than_is_true_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    done("certify", "--noise", "500m", "--out", path)

    def weaken(document: object) -> object:
        """Halve every epsilon and bound."""
        if isinstance(document, dict):
            return {
                name: value / 2 if name in {"epsilon", "bound", "attained"} and value else weaken(value)
                for name, value in document.items()
            }
        return [weaken(each) for each in document] if isinstance(document, list) else document

    path.write_text(json.dumps(weaken(json.loads(path.read_text()))))
    result = run("certify", "--check", path)
    assert result.code == 3
    path.write_text("{}")
    assert run("certify", "--check", path).code == 3


def test_the_guarantee_of_a_release_is_explained(users_csv: Path, tmp_path: Path) -> None:
    released = done("protect", users_csv, tmp_path / "out.csv", "--noise", "800m", "--json")
    (tmp_path / "release.json").write_text(released.out)
    explained = done("guarantee", tmp_path / "release.json", "--json").json
    assert explained["epsilon"] == pytest.approx(2 / 800, rel=0.01)
    assert explained == released.json["guarantee"]
    assert len(done("guarantee", tmp_path / "release.json").out.splitlines()) > 5


def test_the_guarantee_of_settings_is_explained_without_data() -> None:
    wide, narrow = (done("guarantee", "--noise", length, "--json").json for length in ("1km", "100m"))
    assert wide["epsilon"] * 10 == pytest.approx(narrow["epsilon"], rel=0.01)
    assert done("guarantee", "--noise", "1km").out != done("guarantee", "--noise", "100m").out
