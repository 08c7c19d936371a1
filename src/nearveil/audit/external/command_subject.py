"""A command that reads places as CSV and writes published places as CSV."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, ClassVar

import numpy as np

from nearveil.audit.external.processes import end_group, how_it_ended
from nearveil.audit.external.subject import DEFAULT_TIMEOUT_S, ExternalSubject
from nearveil.audit.subject import AuditError
from nearveil.errors import DataError, UsageError
from nearveil.io.csv_file import read_csv
from nearveil.region import Region
from nearveil.types import FloatArray

INPUT, OUTPUT = "{input}", "{output}"

_LOOK_EVERY_S = 0.1
_MOST_BYTES = 1 << 26
_MOST_BYTES_PER_ROW = 1 << 10
_LAST_LINE = 200
_TAIL = 4096


class CommandSubject(ExternalSubject):
    """A program, called once for a whole batch of rows.

    The rows have the columns latitude and longitude, under a header. The output needs one row for each, in their order,
    with columns called latitude and longitude or as usual; more columns do no harm. Rows that are counted are all of
    one place and are taken for independent draws, so the command must give each row its own noise, as it must for
    different people. A search over the region asks for many places at once. Gross violations of independence and of
    the order are noticed (see `nearveil.audit.external.independence`).

    The command draws its own randomness, so a seed does not repeat an audit of it.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; a string is split as a shell would, but no shell runs it. ``{input}`` and
        ``{output}`` stand for the names of CSV files; what is not named comes from or goes to the standard streams.
    """

    repeatable: ClassVar[bool] = False

    def __init__(self, command: str | Sequence[str], region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region, timeout_s)
        self.arguments = _arguments(command)

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Run the command on a file with these rows and read what it wrote."""
        del rng
        with TemporaryDirectory(prefix="nearveil-audit-") as folder:
            files = _Files(Path(folder))
            _write_rows(points, files.input)
            self._run(files, len(points))
            return _read_rows(files.written_by(self.arguments))

    def _run(self, files: _Files, rows: int) -> None:
        with ExitStack() as stack:
            source = stack.enter_context(files.input.open("rb"))
            printed, errors = (stack.enter_context(path.open("wb")) for path in (files.printed, files.errors))
            process = self._start(files, source, printed, errors)
            try:
                self._wait(process, files, rows)
            finally:
                end_group(process)
        if process.returncode != 0:
            raise AuditError(
                f"the command failed with {how_it_ended(process.returncode)}{_last_line(files.errors)}; "
                "there is no verdict on it"
            )

    def _start(self, files: _Files, source: BinaryIO, printed: BinaryIO, errors: BinaryIO) -> subprocess.Popen[bytes]:
        names = {INPUT: str(files.input), OUTPUT: str(files.output)}
        arguments = [_filled_in(argument, names) for argument in self.arguments]
        stdin = subprocess.DEVNULL if _mentions(self.arguments, INPUT) else source
        try:
            return subprocess.Popen(arguments, stdin=stdin, stdout=printed, stderr=errors, start_new_session=True)
        except FileNotFoundError:
            raise UsageError(f"there is no program {arguments[0]!r}; check the command's first word") from None
        except (OSError, ValueError):
            raise UsageError(f"{arguments[0]!r} cannot be run as a program; check the command's first word") from None

    def _wait(self, process: subprocess.Popen[bytes], files: _Files, rows: int) -> None:
        """Wait until the command ends; raise if it takes too long or writes without end."""
        until = time.monotonic() + self.timeout_s
        most = _MOST_BYTES + _MOST_BYTES_PER_ROW * rows
        while True:
            left = until - time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, min(left, _LOOK_EVERY_S)))
                return
            if left <= 0:
                raise AuditError(
                    f"the command did not end within {self.timeout_s:g} s on {rows:,} rows and was ended; "
                    "raise the time limit, or ask for fewer samples"
                )
            if files.size > most:
                raise AuditError(f"the command wrote more than {most:,} bytes on {rows:,} rows and was ended")


class _Files:
    """The files of one call."""

    def __init__(self, folder: Path) -> None:
        self.input, self.output = folder / "input.csv", folder / "output.csv"
        self.printed, self.errors = folder / "printed.csv", folder / "errors.txt"

    @property
    def size(self) -> int:
        """Bytes written by the command so far."""
        return sum(path.stat().st_size for path in (self.output, self.printed, self.errors) if path.exists())

    def written_by(self, arguments: Sequence[str]) -> Path:
        """Where the command wrote its rows."""
        if not _mentions(arguments, OUTPUT):
            return self.printed
        if not self.output.is_file():
            raise AuditError("the command ended well but wrote no output file; it must write to {output}")
        return self.output


def _arguments(command: str | Sequence[str]) -> tuple[str, ...]:
    try:
        arguments = tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError:
        raise UsageError("the command cannot be split into words; check its quotation marks") from None
    if not arguments or not all(isinstance(argument, str) for argument in arguments) or not arguments[0]:
        raise UsageError("the command is empty; give a program and its arguments")
    return arguments


def _mentions(arguments: Sequence[str], placeholder: str) -> bool:
    return any(placeholder in argument for argument in arguments)


def _filled_in(argument: str, names: dict[str, str]) -> str:
    for placeholder, name in names.items():
        argument = argument.replace(placeholder, name)
    return argument


def _write_rows(points: FloatArray, path: Path) -> None:
    lines = "".join(f"{latitude!r},{longitude!r}\n" for latitude, longitude in points.tolist())
    path.write_text(f"latitude,longitude\n{lines}", encoding="ascii")


def _read_rows(path: Path) -> FloatArray:
    try:
        return read_csv(path, carry=False).points
    except DataError as error:
        reason = str(error).replace(str(path), "it").split(";")[0]
        raise AuditError(
            f"the command's output cannot be read: {reason}; it must write CSV with the columns latitude and longitude"
        ) from None


def _last_line(path: Path) -> str:
    """The end of what the command said about its failure, in quotation marks, if it said anything."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL))
        lines = stream.read().decode("utf-8", errors="replace").split("\n")
    words = ["".join(mark if mark.isprintable() else " " for mark in line).strip() for line in lines]
    said = [line for line in words if line]
    return f" and said: {said[-1][:_LAST_LINE]!r}" if said else ""
