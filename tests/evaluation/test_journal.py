"""Finished work on disk survives whatever happens to the process, and to the file."""

import errno
import io
import json
import math
from pathlib import Path

import pytest

from nearveil.errors import OutputError, UsageError
from nearveil.evaluation.runner import CellJournal, open_journal

RESULTS = {f"key{number}": {"recall": number / 7, "words": f"ä|\n{number}"} for number in range(4)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cells.jsonl"
    with open_journal(path) as journal:
        for key, result in RESULTS.items():
            journal.add(key, result)
    return path


def kept(path: Path) -> dict[str, object]:
    with open_journal(path) as journal:
        return {key: journal[key] for key in (*RESULTS, "more") if key in journal}


def test_somebody_elses_file_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_text('{"mine": 1}\n{"mine": 2}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="only looks like finished work"), open_journal(path):
        pass
    assert path.read_text(encoding="utf-8") == '{"mine": 1}\n{"mine": 2}\n'


def test_everything_comes_back(path: Path) -> None:
    assert kept(path) == RESULTS
    assert len(path.read_bytes().splitlines()) == len(RESULTS)


def test_numbers_come_back_to_the_last_digit_endless_ones_too(path: Path) -> None:
    result = {
        "third": 1 / 3,
        "tiny": 5e-324,
        "endless": math.inf,
        "less": -math.inf,
        "no": math.nan,
        "list": [[1, 2.5]],
    }
    with open_journal(path) as journal:
        journal.add("more", result)
        told = journal["more"]
    with open_journal(path) as journal:
        again = journal["more"]
    for found in (told, again):
        assert math.isnan(found["no"])
        assert {name: found[name] for name in result if name != "no"} == {
            name: value for name, value in result.items() if name != "no"
        }


def test_a_result_is_on_disk_as_soon_as_it_is_added(tmp_path: Path) -> None:
    with open_journal(tmp_path / "cells.jsonl") as journal:
        journal.add("key", {"recall": 0.5})
        _, _, told = (tmp_path / "cells.jsonl").read_bytes().partition(b" ")
        assert json.loads(told) == {"key": "key", "result": {"recall": 0.5}}


def test_what_was_added_is_what_would_be_read(tmp_path: Path) -> None:
    """A tuple comes back as a list, at once and not only after the next start."""
    with open_journal(tmp_path / "cells.jsonl") as journal:
        journal.add("key", {"attempts": [(1.0, 2)]})
        assert journal["key"] == {"attempts": [[1.0, 2]]}


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_half_written_line_is_dropped_and_the_rest_kept(path: Path, cut: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    expected = dict(list(RESULTS.items())[:-1])
    assert kept(path) == expected
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:-1])
    with open_journal(path) as journal:
        journal.add("more", {"recall": 1.0})
    assert kept(path) == {**expected, "more": {"recall": 1.0}}


@pytest.mark.parametrize("junk", [b"\n", b"junk", b"junk\n", b"\x00" * 500, b'0123456789abcdef {"key": "more"}\n'])
def test_junk_after_the_last_line_is_ignored_and_cut_where_it_has_no_end(path: Path, junk: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + junk)
    assert kept(path) == RESULTS
    assert path.read_bytes() == whole + (junk if junk.endswith(b"\n") else b"")
    with open_journal(path) as journal:
        journal.add("more", {"recall": 1.0})
    assert kept(path) == {**RESULTS, "more": {"recall": 1.0}}


@pytest.mark.parametrize("place", [3, 30, 60])
def test_a_changed_byte_is_noticed_and_never_believed(path: Path, place: int) -> None:
    """In the mark, in the key or in a number of the third line."""
    lines = path.read_bytes().splitlines(keepends=True)
    changed = bytearray(lines[2])
    changed[place] ^= 1
    path.write_bytes(b"".join([*lines[:2], bytes(changed), lines[3]]))
    assert kept(path) == {key: result for key, result in RESULTS.items() if key != "key2"}


def test_the_last_of_two_results_counts(path: Path) -> None:
    with open_journal(path) as journal:
        journal.add("key1", {"recall": 0.25})
    assert kept(path)["key1"] == {"recall": 0.25}


def test_a_second_run_in_the_same_folder_is_refused(path: Path) -> None:
    before = path.read_bytes()
    with (
        open_journal(path),
        pytest.raises(UsageError, match=r"another run is writing to .*; wait for it"),
        open_journal(path),
    ):
        pass
    assert path.read_bytes() == before
    assert kept(path) == RESULTS


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "cells.jsonl", tmp_path / "nowhere" / "cells.jsonl"):
        with pytest.raises(OutputError, match=r"cannot be written: .*--out"), open_journal(path):
            pass


class FullDisk(io.BytesIO):
    """Has room for nothing."""

    def write(self, _data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk() -> None:
    journal = CellJournal(FullDisk())
    with pytest.raises(OutputError, match="cannot be kept: the disk is full"):
        journal.add("key", {"recall": 0.5})
    assert "key" not in journal
