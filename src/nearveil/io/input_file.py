"""A file to read people from, as often as needed: on disk, or standard input and pipes, which are held in memory.

What comes through a pipe holds true places, so it is not put into a temporary file.
"""

from __future__ import annotations

import codecs
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from nearveil.errors import DataError, UsageError

STANDARD_STREAM = "-"
"""Standard input where a file is read, standard output where one is written."""

_GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16
_LONGEST_EXCELS_LINE = 16
_WINDOWS_ONLY = bytes(range(0x80, 0xA0))
# The line before the header by which Excel knows the delimiter.
_EXCELS_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(.)"?\r?\n', re.IGNORECASE)
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class InputFile:
    """A file of people; what cannot be one is refused at once.

    Parameters
    ----------
    path : str or Path
        ``-`` is standard input.

    Attributes
    ----------
    path : Path
        As given.
    name : str
        What messages call it.
    is_held : bool
        Whether it came through a pipe, so that its name may not tell its format.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = "standard input" if is_standard(path) else str(path)
        self._held: pa.Buffer | None = None
        if is_standard(path):
            if sys.stdin.isatty():
                raise UsageError("standard input is a terminal; pipe the people into it, or name a file in place of -")
            self._held = pa.py_buffer(sys.stdin.buffer.read())
        elif self.path.is_fifo():
            with self.path.open("rb") as pipe:
                self._held = pa.py_buffer(pipe.read())
        elif not self.path.exists():
            raise DataError(f"there is no file {path}; check the name")
        elif self.path.is_dir():
            raise DataError(f"{path} is a folder; name a file")
        elif not self.path.is_file():
            raise DataError(f"{path} is not an ordinary file; save it as one first")
        if (self.path.stat().st_size if self._held is None else self._held.size) == 0:
            raise DataError(f"{self.name} is empty; give at least one person")

    @property
    def is_held(self) -> bool:
        """Whether it came through a pipe."""
        return self._held is not None

    def open(self) -> pa.NativeFile:
        """Open the file at its first byte, unpacked if it is gzipped."""
        try:
            if self._held is not None:
                gzipped = self._held.slice(0, 2).to_pybytes() == _GZIP_MAGIC
                return pa.input_stream(self._held, compression="gzip" if gzipped else None)
            with self.path.open("rb") as file:
                gzipped = file.read(2) == _GZIP_MAGIC
            return pa.input_stream(str(self.path), compression="gzip" if gzipped else None)
        except OSError as error:
            raise DataError(f"{self.name} cannot be read: {error.strerror or 'is it a file?'}") from None

    def seekable(self) -> Path | pa.Buffer:
        """Return what a reader can move about in: the path, or what is held."""
        return self.path if self._held is None else self._held

    def head(self) -> bytes:
        """Return the first bytes, unpacked."""
        with self.open() as stream:
            try:
                return bytes(stream.read(_HEAD_BYTES))
            except OSError:
                raise DataError(f"{self.name} is damaged; export it again") from None


def is_standard(path: str | Path) -> bool:
    """Whether a path stands for standard input or output."""
    return str(path) == STANDARD_STREAM


# The encoding of a text file. It is stated, or UTF-8, or marked in the file: a guess could change people's names.


class TextFile:
    """A file of text, read as UTF-8 whatever its encoding.

    Parameters
    ----------
    file : InputFile
        Gzipped or not.
    encoding : str, optional
        As Python names it; UTF-8, or as the file's byte order mark says, if not given.

    Attributes
    ----------
    delimiter : str, optional
        What separates values, where the first line says ``sep=;`` as Excel's does; that line is left out.
    """

    def __init__(self, file: InputFile, encoding: str | None) -> None:
        self.file = file
        self._stated = encoding is not None
        marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if file.head().startswith(mark)), "utf-8")
        self.encoding = _known(encoding) if encoding is not None else marked
        self.delimiter: str | None = None
        self._bytes_left_out = 0
        # What cannot be read is refused later.
        with suppress(UnicodeError, OSError), self.open() as stream:
            if line := _EXCELS_LINE.match(bytes(stream.read(_LONGEST_EXCELS_LINE))):
                self.delimiter = line[1].decode("latin-1")
                self._bytes_left_out = line.end()

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.file.name

    def open(self) -> BinaryIO:
        """Open it at its first byte after what is left out."""
        stream: BinaryIO = self.file.open()
        if self.encoding != "utf-8":
            stream = pa.transcoding_input_stream(stream, self.encoding, "utf-8")
        stream.read(self._bytes_left_out)
        return stream

    def refuse_encoding(self) -> None:
        """Raise if the file is not text in its encoding: what reads it cannot say so."""
        found = self._first_undecodable()
        if found is None:
            return
        if self._stated:
            raise DataError(
                f"{self.name} is not text in the encoding {self.encoding}; name the right one with encoding=, such "
                f"as {'utf-8' if self.encoding != 'utf-8' else _likely(found)}"
            )
        raise DataError(
            f"{self.name} is not UTF-8 text; name its encoding, perhaps with encoding={_likely(found)}, or save it "
            "as UTF-8"
        )

    def _first_undecodable(self) -> bytes | None:
        """Return the block of bytes that cannot be decoded, or that no text has."""
        decoder = codecs.getincrementaldecoder(self.encoding)()
        with self.file.open() as stream:
            try:
                while block := bytes(stream.read(1 << 20)):
                    if "\0" in decoder.decode(block):
                        return block
                decoder.decode(b"", final=True)
            except UnicodeError:
                return block
            except OSError:
                raise DataError(f"{self.name} is damaged; export it again") from None
        return None


def _known(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        # Some of Python's codecs are not for text.
        "".encode(name)
    except (LookupError, ValueError):
        raise UsageError(
            f"there is no text encoding {encoding!r}; use a name such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def _likely(block: bytes) -> str:
    """Name the encoding that such bytes suggest."""
    if block.count(0) > len(block) // 4:
        return "utf-16-le" if block[1:2] == b"\0" else "utf-16-be"
    return "cp1252" if any(byte in _WINDOWS_ONLY for byte in block) else "latin-1"
