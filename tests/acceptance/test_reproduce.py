"""``nearveil reproduce``: tables and pictures of the paper, and what is measured once is not measured again."""

from pathlib import Path

from tests.acceptance.helpers import REGION, done, is_picture, read_csv


def test_a_table_is_written_for_readers_and_for_programs(tmp_path: Path) -> None:
    done("reproduce", "table2", "--quick", "--dataset", "gaussian", "--out", tmp_path / "report")
    rows = read_csv(tmp_path / "report" / "table2.csv")
    assert [row["dataset"] for row in rows] == ["gaussian"]
    assert "25,000" in (tmp_path / "report" / "table2.md").read_text(encoding="utf-8").replace("25000", "25,000")
    assert is_picture(tmp_path / "report" / "table2-gaussian.png")


def test_users_of_your_own_and_what_is_measured_is_not_measured_again(many_csv: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    options = ("reproduce", "table2", "--quick", "--input", many_csv, "--region", REGION, "--seed", 3, "--out", report)
    done(*options)
    first = (report / "table2.csv").read_text(encoding="utf-8")
    (report / "table2.csv").unlink()
    done(*options)
    assert (report / "table2.csv").read_text(encoding="utf-8") == first
