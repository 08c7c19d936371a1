import errno
import os
import stat
from pathlib import Path

import pytest
from nearveil.privacy.ledger.journal import HEADER, Journal

from nearveil.errors import DataError, OutputError

PAYLOADS = [b'{"a":1}', b"{}", b'{"b": "x y  z"}', b"0123456789" * 3]


def read(journal: Journal) -> list[bytes]:
    with journal.locked() as descriptor:
        return journal.read_new(descriptor)


def append(journal: Journal, payload: bytes) -> list[bytes]:
    with journal.locked() as descriptor:
        new = journal.read_new(descriptor)
        journal.append(descriptor, payload)
        return new


@pytest.fixture
def written(tmp_path: Path) -> bytes:
    """The bytes of a journal of all payloads."""
    journal = Journal(tmp_path / "written")
    for payload in PAYLOADS:
        append(journal, payload)
    return (tmp_path / "written").read_bytes()


def line_ends(data: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]


@pytest.mark.usefixtures("no_disk")
def test_every_prefix_holds_exactly_its_complete_records(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "cut"
    for length in range(len(written) + 1):
        path.write_bytes(written[:length])
        complete = max(0, sum(end <= length for end in line_ends(written)) - 1)
        journal = Journal(path)
        assert read(journal) == PAYLOADS[:complete], length
        # The torn rest is gone, and going on from here gives the very same file.
        assert path.read_bytes() == written[: line_ends(written)[complete]], length
        for payload in PAYLOADS[complete:]:
            assert append(journal, payload) == []
        assert path.read_bytes() == written, length
        assert read(Journal(path)) == PAYLOADS, length


@pytest.mark.usefixtures("no_disk")
def test_every_altered_byte_is_noticed(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "altered"
    for place in range(len(written)):
        for byte in {written[place] ^ 1, ord("\n")} - {written[place]}:
            path.write_bytes(written[:place] + bytes([byte]) + written[place + 1 :])
            with pytest.raises(DataError):
                read(Journal(path))


def test_records_left_out_moved_or_doubled_are_noticed(tmp_path: Path, written: bytes) -> None:
    header, *lines = written.splitlines(keepends=True)
    path = tmp_path / "edited"
    for edited in (lines[1:], [lines[0], *lines[2:]], [lines[1], lines[0], *lines[2:]], [lines[0], *lines]):
        path.write_bytes(header + b"".join(edited))
        with pytest.raises(DataError, match="damaged at byte"):
            read(Journal(path))


def test_a_refused_file_is_left_as_it_is(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "damaged"
    for content in (written[:30] + b"?" + written[31:], b"latitude,longitude\n1,2", written + b"\0" * 50):
        path.write_bytes(content)
        with pytest.raises(DataError):
            read(Journal(path))
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"nearveil-ledger 2\n", "version"),
        (b"x", "not a ledger"),
        (b"nearveil-ledger one\n", "not a ledger"),
        (b"\n", "no"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(DataError, match=word):
        Journal(path)
    assert path.read_bytes() == content


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    for mask in (0o000, 0o777):
        before = os.umask(mask)
        try:
            Journal(tmp_path / str(mask))
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / str(mask)).stat().st_mode) == 0o600
        assert (tmp_path / str(mask)).read_bytes() == HEADER


def test_what_others_append_is_seen_once(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "shared"), Journal(tmp_path / "shared")
    append(first, b"1")
    assert append(second, b"2") == [b"1"]
    assert read(first) == [b"2"]
    assert read(first) == read(second) == []
    assert read(Journal(tmp_path / "shared")) == [b"1", b"2"]


def test_a_file_cut_or_replaced_while_in_use_is_refused(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "used"
    path.write_bytes(written)
    journal = Journal(path)
    read(journal)
    os.truncate(path, line_ends(written)[1])
    with pytest.raises(DataError, match="shorter"):
        read(journal)
    (tmp_path / "copy").write_bytes(written)
    (tmp_path / "copy").replace(path)
    with pytest.raises(DataError, match="replaced"):
        read(journal)
    path.unlink()
    with pytest.raises(OutputError, match="No such file"):
        read(journal)
    assert not path.exists()


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="ordinary"):
        Journal(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing" / "ledger"):
        with pytest.raises(OutputError, match="cannot be used"):
            Journal(path)


@pytest.mark.usefixtures("no_disk")
def test_a_full_disk_at_any_byte_leaves_nothing_behind(
    tmp_path: Path, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full"
    path.write_bytes(written)
    journal = Journal(path)
    read(journal)
    pwrite = os.pwrite
    for room in range(40):

        def until_full(descriptor: int, data: bytes, place: int, end: int = len(written) + room) -> int:
            if place >= end:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return pwrite(descriptor, data[: end - place], place)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", until_full)
            with pytest.raises(OutputError, match="No space"):
                append(journal, b"x" * 50)
        assert path.read_bytes() == written
    append(journal, b"y")
    assert read(Journal(path)) == [*PAYLOADS, b"y"]


def test_a_disk_that_does_not_take_it_is_an_error(
    tmp_path: Path, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broken"
    path.write_bytes(written)
    journal = Journal(path)
    read(journal)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OutputError, match="record again"):
            append(journal, b"y")
    assert path.read_bytes() == written


def test_the_disk_has_a_record_before_it_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File and folder when the journal is made, the file at each record, and before relying on others' records."""
    synced: list[tuple[bool, int]] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((stat.S_ISDIR(status.st_mode), status.st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    path = tmp_path / "new"
    journal = Journal(path)
    assert synced[0] == (False, len(HEADER))
    assert synced[1][0]
    append(journal, b"1")
    assert synced[-1] == (False, path.stat().st_size)
    other = Journal(path)
    synced.clear()
    assert read(other) == [b"1"]
    assert synced == [(False, path.stat().st_size)]
