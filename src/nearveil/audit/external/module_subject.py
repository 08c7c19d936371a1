"""A function of a module or a file, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any

import numpy as np

from nearveil.audit.external import worker
from nearveil.audit.external.processes import end_group, how_it_ended
from nearveil.audit.external.subject import DEFAULT_TIMEOUT_S, ExternalSubject
from nearveil.audit.external.time_limit import TookTooLongError, within
from nearveil.audit.subject import AuditError
from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray

_GOODBYE_S = 2.0


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
                [sys.executable, "-P", worker.__file__, self.target],
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
    if answer["kind"] == worker.USAGE:
        raise UsageError(f"{target!r} cannot be audited: {answer['what']}; check the name")
    if answer["kind"] == worker.FAILURE:
        raise AuditError(f"the mechanism failed with {answer['what']}; there is no verdict on it")
    if answer["kind"] == worker.NO_NUMBERS:
        raise AuditError("the mechanism gave something that is no array of numbers; it must give two columns")
