"""`reproduce`: what it measures, what it writes, what it says of itself, and what it refuses."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import nearveil as nv
from nearveil.attacks.adaptive import Adaptive
from nearveil.errors import NearveilError, UsageError
from nearveil.evaluation import paper_numbers, studies
from nearveil.io.datasets import Dataset
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region
from nearveil.report import reproduce as module
from nearveil.report.reproduce import reproduce
from tests.report.toy import MEASURED, TOY, figures


class Twin(Adaptive):
    """Somebody else's attack under the name of one of ours."""


REGION = named_region("san-francisco")
CITY = synthetic_city(300, REGION, rng=1)


@pytest.fixture(autouse=True)
def only_a_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the paper be a toy and Table 1."""
    MEASURED.clear()
    monkeypatch.setattr(module, "PARTS", ("paper", "toy", "table1"))
    monkeypatch.setattr(studies, "load", {"toy": TOY}.__getitem__)
    monkeypatch.setattr(studies, "PAPER", {"toy": "toy"})
    monkeypatch.setattr(module, "FIGURES", {"toy": figures})
    claims = pd.DataFrame({"claim": ["one", "two"], "verdict": ["reproduced", "not measured here"]})
    monkeypatch.setattr(module, "verdicts", lambda _runs: claims)


def run(part: str = "toy", **options: Any) -> nv.Reproduction:
    chosen: dict[str, Any] = {"people": CITY, "region": REGION, "cores": 1, "quick": True}
    return reproduce(part, **chosen | options)


def test_runs_are_rows_tables_have_intervals_and_all_of_it_is_written(tmp_path: Path) -> None:
    assert run(runs=1).files == ()
    found = run(out=tmp_path / "a" / "b", runs=4, seed=7)
    rows = found.runs["toy"]
    assert (list(rows.columns), len(rows)) == (["dataset", "epsilon", "seed", "run", "recall", "users"], 4 * 2)
    assert set(rows.seed) == {7}
    assert [str(one) for one in found.tables["toy"].recall] == ["0.435 ± 0.021", "0.515 ± 0.021"]
    assert found.verdicts.claim.tolist() == ["one"]
    assert [path.name for path in found.files] == ["report.html", "toy.png", "toy.md", "toy.csv"]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "a" / "b" / "toy.csv"), rows)
    page = found.files[0].read_text(encoding="utf-8")
    command = "nearveil reproduce toy --quick --seed 7 --runs 4 --instances 20 --input FILE --region REGION"
    for words in (command, "computed from true locations", "A quick run", "own users, 300 locations in"):
        assert words in page
    # A digest would confirm a guess of the users.
    assert "digest" not in page


def test_what_is_measured_is_not_measured_again(tmp_path: Path) -> None:
    first = run(out=tmp_path, runs=2)
    assert len(MEASURED) == 4
    again = run(out=tmp_path, runs=2)
    assert len(MEASURED) == 4
    pd.testing.assert_frame_equal(first.runs["toy"], again.runs["toy"])
    # More runs take up where the others were; other users are others.
    run(out=tmp_path, runs=3)
    assert len(MEASURED) == 6
    run(out=tmp_path, runs=2, people=CITY[:200])
    assert len(MEASURED) == 10


def test_populations_of_the_paper_and_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NEARVEIL_DATA_DIR", "NEARVEIL_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    np.savetxt(tmp_path / "shops.csv", CITY, delimiter=",", header="latitude,longitude", comments="")
    said: list[str] = []
    assert run(people=None, warn=said.append).scope.datasets == ("gaussian", "beta")
    assert [words.split(",")[0] for words in said] == ["without brightkite", "without gowalla"]
    assert run(people=tmp_path / "shops.csv", datasets=["beta"]).scope.datasets == ("beta", "shops")
    assert run(people=np.vstack([CITY, CITY])).runs["toy"].users.unique().tolist() == [300]


def test_results_of_the_authors_code_are_shown_and_not_mixed_with_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("dataset,epsilon,mechanism,metric,value\npeople,1,DPRS,recall,0.9\nbeta,1,DPRS,recall,0.9\n")
    rows = paper_numbers.theirs(path)["table3"]
    monkeypatch.setattr(paper_numbers, "theirs", lambda _file: {"toy": rows})
    found = run(theirs=path, runs=1)
    assert found.tables["toy"].dataset.unique().tolist() == ["people"]
    assert [one.value for one in found.tables["toy"].recall] == pytest.approx([(0.42 + 0.9) / 2, 0.5], abs=1e-5)
    assert 0.9 not in found.runs["toy"].recall.tolist()
    with pytest.raises(UsageError, match="has a data set 'mars', which neither"):
        monkeypatch.setattr(paper_numbers, "theirs", lambda _file: {"toy": rows.assign(dataset="mars")})
        run(theirs=path, runs=1)
    with pytest.raises(UsageError, match="has results for toy, which is not measured here"):
        run("table1", theirs=path)


def test_the_page_speaks_of_the_populations_that_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"demo city": Dataset("demo city", REGION, CITY, "synthetic"), "nobody": Dataset("nobody", REGION, CITY[:0])}
    own = replace(
        TOY, grid=lambda scope: replace(scope, datasets=tuple(made)).grid(epsilon=(1,)), populations=lambda: made
    )
    monkeypatch.setattr(studies, "load", {"toy": own}.__getitem__)
    page = run(out=tmp_path, runs=2, people=None, datasets=["beta"]).files[0].read_text(encoding="utf-8")
    assert "Data: demo city" in page
    # The paper's were not, and yours are refused.
    with pytest.raises(UsageError, match="toy is measured on no users; leave yours out"):
        run(runs=2)
    for words in ("Data: beta", "Data: nobody", "do not publish", "Without"):
        assert words not in page


def test_a_part_that_these_users_cannot_have_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise UsageError("these are <b>too few")

    other = replace(TOY, name="other", title="Another", measure=refuse)
    monkeypatch.setattr(studies, "PAPER", {"toy": "toy", "other": "other"})
    monkeypatch.setattr(studies, "load", {"toy": TOY, "other": other}.__getitem__)
    said: list[str] = []
    found = run("paper", out=tmp_path, runs=2, warn=said.append)
    assert (list(found.runs), said[-1]) == (["toy"], "Another: these are <b>too few")
    assert "Not measured: these are &lt;b&gt;too few." in found.files[0].read_text(encoding="utf-8")
    assert not (tmp_path / "other.csv").exists()


def test_the_paper_is_all_of_its_parts_with_every_claim_and_a_bar_for_each() -> None:
    bars: list[tuple[str, int]] = []
    steps: list[int] = []

    @contextmanager
    def bar(title: str, total: int) -> Iterator[Any]:
        bars.append((title, total))
        yield steps.append

    found = run("paper", runs=2, progress=bar)
    assert list(found.runs) == ["toy"]
    assert found.verdicts.claim.tolist() == ["one", "two"]
    assert (bars, steps) == ([("A toy", 4)], [1] * 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"part": "figure12"}, "there is no part 'figure12'; choose one of paper, toy"),
        ({"datasets": ["mars"]}, "there is no population 'mars'"),
        ({"people": CITY}, "name the public region of these users"),
        ({"mechanisms": ["srr"]}, "a class of your own goes into frontier, and not into toy"),
        ({"part": "table1", "attacks": [Twin]}, "two are called the same"),
        ({"theirs": Path(__file__).with_name("toy.py")}, "needs the columns|cannot be read"),
        ({"people": CITY, "region": REGION, "out": __file__}, "cannot be created"),
    ],
)
def test_what_it_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(NearveilError, match=words):
        reproduce(**{"part": "toy"} | options)
    assert MEASURED == []


def test_the_name_of_a_file_stays_text(tmp_path: Path) -> None:
    file = tmp_path / "<script>alert(1)<script>.csv"
    np.savetxt(file, CITY, delimiter=",", header="latitude,longitude", comments="")
    page = run(people=file, out=tmp_path / "out", runs=2).files[0].read_text(encoding="utf-8")
    assert (page.count("<script>alert"), page.count("&lt;script&gt;alert(1)&lt;script&gt;") >= 3) == (0, True)


def test_files_about_own_users_are_private_and_what_is_kept_runs_no_code(tmp_path: Path) -> None:
    said: list[str] = []
    first = run(out=tmp_path, runs=2, warn=said.append)
    assert any("do not publish" in line for line in said)
    assert {path.stat().st_mode & 0o077 for path in first.files} == {0}
    kept = tmp_path / ".measured"
    assert kept.stat().st_mode & 0o077 == 0
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json"}
    # What cannot be read is measured again.
    files[0].write_bytes(b"\x80\x04garbage")
    pd.testing.assert_frame_equal(run(out=tmp_path, runs=2).runs["toy"], first.runs["toy"])
