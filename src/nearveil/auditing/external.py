"""Mechanisms that are not ours, as the auditor takes them: a callable, a function of a module, a command.

Whatever they do instead of publishing places (raise, hang, end the process, give too few rows, NaN or places outside
the region) becomes an `AuditError` of one sentence, never a verdict.

>>> from nearveil.region import named_region
>>> def publish(points, rng):
...     return points + rng.normal(0, 0.001, points.shape)
>>> subject = CallableSubject(publish, named_region("san-francisco"))
>>> import numpy as np
>>> subject.sample((37.77, -122.42), 1000, np.random.default_rng(1)).shape
(1000, 2)
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, Self, TypeVar

import numpy as np

from nearveil.auditing import _module_worker
from nearveil.auditing.bounds import clopper_pearson_high, clopper_pearson_low
from nearveil.auditing.subjects import AuditError, Place, PublishedSubject, Subject, checked_outputs
from nearveil.errors import DataError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.io.readers import read_points
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray

# Processes that the auditor starts, and ends: those and no others.


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started in a session of its own, and what it has started, unless it has ended already."""
    # Until it is waited for, its process id, which is also that of its group, is not reused.
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def how_it_ended(code: int) -> str:
    """Say how a process ended, from its return code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


# Wait for something no longer than it may take.


_Result = TypeVar("_Result")


class TookTooLongError(Exception):
    """The time limit has passed."""


def within(timeout_s: float, work: Callable[[], _Result]) -> _Result:
    """Return what ``work`` returns or raises; raise `TookTooLongError` once it takes longer than allowed.

    It runs in a thread of its own. Python cannot end a thread, so work that hangs goes on hanging until the process
    ends, which it does not hold up.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # passed on to the caller, whatever it is
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="nearveil-audit")
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise TookTooLongError
    if errors:
        raise errors[0]
    return results[0]


# Are the rows of a call independent draws? Counting them as such is what an audit's confidence rests on.
#
# All rows of a call are for the same place, so they should be independent draws from one law, and so should the rows
# of other calls for that place. Then each of these holds but for a probability of 1e-9, whatever the law:
#
# - the two halves of a call, and two calls, have nearly the same distribution along either axis (by the inequality of
#   Dvoretzky, Kiefer and Wolfowitz). Fails for noise shared by all rows of a call, for sorted rows, for a drift.
# - neighboring rows of a call are alike as often as rows far apart in different calls: equal, or on the same side of
#   the true place. Fails for noise shared by blocks of rows, for rows that undo each other's noise.
# - rows at the same position in different calls are alike no more often than rows at different ones. Fails for a
#   mechanism with a fixed seed.
#
# A call whose rows are all equal is not a fault by itself: always publishing the same point is a mechanism, if a bad
# one. Rows of one place in a random order are not a fault either; `check_order` is for calls with many places,
# whose rows must keep their order. Dependence that shows in none of these ways goes unseen.


_ERROR = 1e-10
_LEAST = 64
_KEPT = 4096

_SHARED = (
    "the rows of one call are not independent of each other (they share noise or a fit, or are sorted), so they do not "
    "count as separate samples; give each row its own noise, fit nothing on them and keep the rows in order"
)
_REPEATED = (
    "the mechanism repeats its noise from call to call, so that no sample is fresh; let it take its randomness from "
    "what it is given or from the system, not from a fixed seed"
)
_SHUFFLED = (
    "the rows come out in another order than they went in, and a search over the region cannot tell whose they are; "
    "keep the order, or name places to try with places=, which needs no order"
)
# Of two samples of a few hundred rows from one law, the distribution functions are nearly always nearer than this.
_SAME = 0.2


class IndependenceWatch:
    """Compares the calls for each place with the first call for it."""

    def __init__(self) -> None:
        self._first: dict[Place, FloatArray] = {}

    def look_at(self, place: Place, true_place: FloatArray, outputs: FloatArray) -> None:
        """Raise `AuditError` if the outputs of one call are not independent draws.

        Parameters
        ----------
        true_place : ndarray of shape (2,)
            The place in the coordinates of the outputs.
        """
        half = len(outputs) // 2
        if _differ(outputs[:half], outputs[half:]):
            raise AuditError(_SHARED)
        earlier = self._first.get(place)
        if earlier is None:
            # Few rows tell nothing; wait for a call with more.
            if len(outputs) >= _LEAST:
                self._first[place] = outputs[:_KEPT].copy()
            return
        if _differ(earlier, outputs):
            raise AuditError(_SHARED)
        _compare_likeness(earlier, outputs[:_KEPT], true_place)


def check_order(alone: Sequence[FloatArray], halves: Sequence[FloatArray]) -> None:
    """Raise `AuditError` if rows of a call with two places are in another order than the places.

    Parameters
    ----------
    alone : two samples
        Outputs for either place, from a call each.
    halves : two samples
        Outputs of one call, whose first half was asked for the first place and whose second half for the second.
    """
    mixed = all(_largest_gap(halves[0][:, axis], halves[1][:, axis]) < _SAME for axis in range(2))
    if mixed and _differ(*alone):
        raise AuditError(_SHUFFLED)


def _compare_likeness(earlier: FloatArray, outputs: FloatArray, true_place: FloatArray) -> None:
    size = min(len(earlier), len(outputs)) // 2 * 2
    if size < _LEAST:
        return
    earlier, outputs = earlier[:size], outputs[:size]
    pairs = ((outputs[::2], outputs[1::2]), (earlier, outputs[::-1]), (earlier, outputs))
    for neighbors, far_apart, same_position in zip(*(_likenesses(*pair, true_place) for pair in pairs), strict=True):
        if _rates_differ(same_position, far_apart) > 0:
            raise AuditError(_REPEATED)
        if _rates_differ(neighbors, far_apart) != 0:
            raise AuditError(_SHARED)


def _likenesses(first: FloatArray, second: FloatArray, true_place: FloatArray) -> Iterator[BoolArray]:
    """For each pair of rows: are they equal, and do they lie on the same side of the true place."""
    yield (first == second).all(axis=1)
    for axis in range(2):
        yield (first[:, axis] > true_place[axis]) == (second[:, axis] > true_place[axis])


def _rates_differ(some: BoolArray, others: BoolArray) -> int:
    """1 or -1 if the first rate is surely larger or smaller than the second, 0 if they may be equal."""
    bounds = [
        (clopper_pearson_low(rate.sum(), len(rate), _ERROR), clopper_pearson_high(rate.sum(), len(rate), _ERROR))
        for rate in (some, others)
    ]
    return int(bounds[0][0] > bounds[1][1]) - int(bounds[0][1] < bounds[1][0])


def _differ(first: FloatArray, second: FloatArray) -> bool:
    """Whether two samples surely come from different laws, judged along either axis."""
    if min(len(first), len(second)) < _LEAST // 2:
        return False
    allowed = sum(math.sqrt(math.log(2 / _ERROR) / (2 * len(sample))) for sample in (first, second))
    return any(_largest_gap(first[:, axis], second[:, axis]) > allowed for axis in range(2))


def _largest_gap(first: FloatArray, second: FloatArray) -> float:
    """Largest difference between two empirical distribution functions."""
    at = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


# What all mechanisms from outside have in common.


DEFAULT_TIMEOUT_S = 60.0

_PROBE = 256


class ExternalSubject(PublishedSubject):
    """A mechanism that somebody else wrote: it is called with a time limit, and its rows are watched.

    Parameters
    ----------
    region : Region
        Public region that places come from and must be published in.
    timeout_s : float
        Seconds that one call may take, whatever the number of rows in it.
    """

    def __init__(self, region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region)
        if not (isinstance(timeout_s, int | float) and 0 < timeout_s < math.inf):
            raise UsageError("the time limit must be a positive number of seconds")
        self.timeout_s = float(timeout_s)
        self._watch = IndependenceWatch()
        self._probed = False
        self._order_checked = False

    @abstractmethod
    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Call the mechanism once for all rows of ``points``."""

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        """Publish ``count`` times for the same place, after watching how rows of one call hang together.

        The first sample of all is taken in two calls, so that noise shared by all rows of a call shows.
        """
        probe = 0 if self._probed else min(_PROBE, count // 2)
        self._probed = True
        calls = [size for size in (probe, count - probe) if size]
        return np.vstack([self._call(place, size, rng) for size in calls])

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Publish once for every place, after making sure that rows come out in the order they went in."""
        if not self._order_checked:
            self._order_checked = True
            self._check_order(rng)
        return super().sample_each(places, rng)

    def close(self) -> None:
        """End what was started for it."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_order(self, rng: np.random.Generator) -> None:
        """Ask for two places far apart, one by one and then in one call: its halves must differ as the places do."""
        region = self.region
        west, east = (
            (region.centre[0], float(wrap_longitude(region.west + share * region.width_deg))) for share in (0.25, 0.75)
        )
        alone = [self._call(place, _PROBE, rng) for place in (west, east)]
        both = super().sample_each(np.repeat([west, east], _PROBE, axis=0), rng)
        check_order(alone, (both[:_PROBE], both[_PROBE:]))

    def _call(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        published = checked_outputs(self.publish(np.tile(np.array(place), (count, 1)), rng), count, self.region)
        outputs = self.in_metres(published)
        self._watch.look_at(place, self.in_outputs(place), outputs)
        return outputs


def closed_after(subject: Subject) -> AbstractContextManager[object]:
    """End, when the context ends, what was started for a subject; it can be used again, and is then started again."""
    return subject if isinstance(subject, ExternalSubject) else nullcontext()


# A Python callable of this process.


Publish = Callable[[FloatArray, np.random.Generator], object]
"""``publish(points, rng)``: degrees in, degrees out, a row for a row."""


class CallableSubject(ExternalSubject):
    """A callable ``points, rng -> points``, in degrees.

    It runs in this process: an exception becomes an error, a hang is given up on (and goes on in a thread of its own),
    but code that ends the process ends the audit. `ModuleSubject` survives that too.
    """

    def __init__(self, publish: Publish, region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region, timeout_s)
        if not callable(publish):
            raise UsageError("a mechanism is a callable that takes points and a generator; this is none")
        self._publish = publish

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Call it, with a time limit."""
        try:
            return within(self.timeout_s, lambda: self._publish(points, rng))
        except TookTooLongError:
            raise AuditError(
                f"the mechanism gave no answer within {self.timeout_s:g} s for {len(points):,} places; "
                "raise the time limit, or ask for fewer samples"
            ) from None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            # The error message may hold a coordinate.
            raise AuditError(f"the mechanism failed with {type(error).__name__}; there is no verdict on it") from None


# A function of a module or a file, in a process of its own.


_GOODBYE_S = 20.0


class ModuleSubject(ExternalSubject):
    """A function ``points, rng -> points``, in degrees, named as ``package.module:function`` or ``file.py:function``.

    It is called in a child process, one for all samples, which ends with the context. A function that hangs is ended
    with its process; one that ends the process is an error.
    """

    def __init__(self, target: str, region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region, timeout_s)
        source, colon, name = target.rpartition(":")
        if not (colon and source and name):
            raise UsageError(f"{target!r} names no function; write package.module:function or path/to/file.py:function")
        self.target = target
        self._process: subprocess.Popen[bytes] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Name the function and the region."""
        return {"kind": "callable", "callable": self.target, "region": asdict(self.region)}

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Have the child process call the function. A place that fills many rows is sent once."""
        starts = np.flatnonzero(np.append(True, (points[1:] != points[:-1]).any(axis=1)))
        request = {
            "places": points[starts].tolist(),
            "rows": np.diff(starts, append=len(points)).tolist(),
            "seed": rng.integers(2**63, size=4).tolist(),
        }
        process = self._started()
        answer, content = self._exchange(process, json.dumps(request).encode() + b"\n", len(points))
        return np.frombuffer(content).reshape(answer["shape"])

    def close(self) -> None:
        """Let the child process end, or end it."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(BrokenPipeError):
            _pipe(process.stdin).close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GOODBYE_S)
        end_group(process)
        _pipe(process.stdout).close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # The child looks for modules where this process does, and in the current folder.
            path = os.pathsep.join([os.curdir, *filter(None, sys.path)])
            self._process = subprocess.Popen(
                [sys.executable, "-P", _module_worker.__file__, self.target],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
            self._exchange(self._process, b"", 0)
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: bytes, count: int) -> tuple[dict[str, Any], bytes]:
        """Send a request and return the answer; whatever else happens ends the child."""
        try:
            answer, content = within(self.timeout_s, lambda: _ask(process, request))
            _refuse(answer, self.target)
        except TookTooLongError:
            end_group(process)
            self.close()
            what = (
                f"gave no answer within {self.timeout_s:g} s for {count:,} places" if count else "did not load in time"
            )
            raise AuditError(
                f"the mechanism {what} and was ended; raise the time limit, or ask for fewer samples"
            ) from None
        except (EOFError, BrokenPipeError):
            code = process.wait()
            self.close()
            raise AuditError(
                f"the mechanism ended its process ({how_it_ended(code)}) instead of giving an answer; "
                "there is no verdict on it"
            ) from None
        except BaseException:
            self.close()
            raise
        return answer, content


def _ask(process: subprocess.Popen[bytes], request: bytes) -> tuple[dict[str, Any], bytes]:
    requests, answers = _pipe(process.stdin), _pipe(process.stdout)
    requests.write(request)
    requests.flush()
    line = answers.readline()
    if not line:
        raise EOFError
    answer = json.loads(line)
    size = 8 * int(np.prod(answer.get("shape", [0]), dtype=np.int64))
    content = answers.read(size)
    if len(content) < size:
        raise EOFError
    return answer, content


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe of a process that was started with pipes."""
    if pipe is None:
        raise AssertionError("the process was started without a pipe")
    return pipe


def _refuse(answer: dict[str, Any], target: str) -> None:
    if answer["kind"] == _module_worker.USAGE:
        raise UsageError(f"{target!r} cannot be audited: {answer['what']}; check the name")
    if answer["kind"] == _module_worker.FAILURE:
        raise AuditError(f"the mechanism failed with {answer['what']}; there is no verdict on it")
    if answer["kind"] == _module_worker.NO_NUMBERS:
        raise AuditError("the mechanism gave something that is not an array of numbers; it must give two columns")


# A command that reads places as CSV and writes published places as CSV.


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
    the order are noticed (see `nearveil.auditing.external`).

    The command draws its own randomness, so a seed does not repeat an audit of it.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; a string is split as a shell would, but no shell runs it. ``{input}`` and
        ``{output}`` stand for the names of CSV files; what is not named comes from or goes to the standard streams.
    """

    def __init__(self, command: str | Sequence[str], region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region, timeout_s)
        self.arguments = _arguments(command)
        self.command = command if isinstance(command, str) else shlex.join(command)

    def to_dict(self) -> dict[str, Any]:
        """Name the command and the region."""
        return {"kind": "command", "command": self.command, "region": asdict(self.region)}

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Run the command on a file with these rows and read what it wrote."""
        del rng
        with TemporaryDirectory(prefix="nearveil-audit-") as folder:
            files = _CallFiles(Path(folder))
            _write_rows(points, files.input)
            self._run(files, len(points))
            return _read_rows(files.written_by(self.arguments))

    def _run(self, files: _CallFiles, rows: int) -> None:
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

    def _start(
        self, files: _CallFiles, source: BinaryIO, printed: BinaryIO, errors: BinaryIO
    ) -> subprocess.Popen[bytes]:
        arguments = [
            argument.replace(INPUT, str(files.input)).replace(OUTPUT, str(files.output)) for argument in self.arguments
        ]
        stdin = subprocess.DEVNULL if _mentions(self.arguments, INPUT) else source
        try:
            return subprocess.Popen(arguments, stdin=stdin, stdout=printed, stderr=errors, start_new_session=True)
        except FileNotFoundError:
            raise UsageError(f"there is no program {arguments[0]!r}; check the command's first word") from None
        except (OSError, ValueError):
            raise UsageError(f"{arguments[0]!r} cannot be run as a program; check the command's first word") from None

    def _wait(self, process: subprocess.Popen[bytes], files: _CallFiles, rows: int) -> None:
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


class _CallFiles:
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
        raise UsageError("the command cannot be split into arguments; check its quotation marks") from None
    if not arguments or not all(isinstance(argument, str) for argument in arguments) or not arguments[0]:
        raise UsageError("the command is empty; give a program and its arguments")
    return arguments


def _mentions(arguments: Sequence[str], placeholder: str) -> bool:
    return any(placeholder in argument for argument in arguments)


def _write_rows(points: FloatArray, path: Path) -> None:
    lines = "".join(f"{latitude!r},{longitude!r}\n" for latitude, longitude in points.tolist())
    path.write_text(f"latitude,longitude\n{lines}", encoding="ascii")


def _read_rows(path: Path) -> FloatArray:
    try:
        return read_points(path)
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
