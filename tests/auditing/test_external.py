"""Mechanisms from outside: they are sampled faithfully, and whatever goes wrong is an error of one sentence."""

import os
import shlex
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.waiting import until

from nearveil.auditing.external import CallableSubject, CommandSubject, IndependenceWatch, ModuleSubject
from nearveil.auditing.subjects import AuditError, Place
from nearveil.errors import NearveilError, UsageError
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
PLACE: Place = (37.77, -122.42)
SPREAD_M = 111.0

# How often a mechanism is called is seen in what it leaves behind.
HONEST = "points + rng.normal(0, 0.001, points.shape)"
BAD: dict[str, tuple[str, str]] = {
    "raises": ("[][int(points[0, 0])]", "failed with IndexError"),
    "leaves": ("sys.exit(3)", "failed with SystemExit"),
    "nan": ("points * np.nan", "row 1 of what the mechanism gave is not a number"),
    "too few": ("points[:-1]", "it must give"),
    "too wide": ("np.column_stack([points, points])", "it must give"),
    "one number": ("1.0", "a single number"),
    "words": ("['here'] * len(points)", "not an array of numbers"),
    "nothing": ("None", "gave"),
    "elsewhere": ("points + 5", "outside the region"),
    "shared noise": ("points + rng.normal(0, 0.001, 2)", "give each row its own noise"),
    "fixed seed": ("points + np.random.default_rng(1).normal(0, 0.001, points.shape)", "fixed seed"),
}


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def as_callable(expression: str) -> Callable[[FloatArray, np.random.Generator], object]:
    names = {"np": np, "sys": sys, "os": os, "threading": threading}
    return lambda points, rng: eval(expression, {**names, "points": points, "rng": rng})  # noqa: S307


def as_file(folder: Path, expression: str) -> str:
    """A Python file with a function that returns the expression."""
    path = folder / "mechanism.py"
    path.write_text(
        "import os, sys, time\nimport numpy as np\nprint('loaded')\n\n"
        f"def publish(points, rng):\n    print('called')\n    return {expression}\n"
    )
    return f"{path}:publish"


def as_script(folder: Path, body: str) -> list[str]:
    """A command: a Python script, quick to start, with ``rows`` read from standard input."""
    path = folder / "command.py"
    path.write_text(
        "import os, random, sys\n"
        "def read(stream):\n    return [tuple(map(float, line.split(','))) for line in list(stream)[1:]]\n"
        "def write(rows, stream=sys.stdout, header='latitude,longitude'):\n"
        "    stream.write(header + '\\n')\n"
        "    for row in rows: stream.write(','.join(map(str, row)) + '\\n')\n"
        "def noisy(row):\n    return tuple(random.gauss(degrees, 0.001) for degrees in row)\n" + body
    )
    return [sys.executable, "-S", "-E", str(path)]


def check_law(outputs: FloatArray) -> None:
    """Centred on the place and as wide as it should be, within six standard errors of 2,000 samples."""
    at = REGION.to_metres([PLACE])[0]
    assert outputs.shape == (2000, 2)
    assert np.abs(outputs.mean(axis=0) - at).max() < 6 * SPREAD_M / np.sqrt(2000)
    assert outputs[:, 1].std() == pytest.approx(SPREAD_M, rel=6 / np.sqrt(4000))
    assert len(np.unique(outputs, axis=0)) > 1990


# -- a callable -----------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_a_callable_is_sampled_in_metres() -> None:
    """False-alarm rate below 1e-7: six standard errors, three times."""
    subject = CallableSubject(as_callable(HONEST), REGION)
    outputs = subject.sample(PLACE, 2000, rng())
    check_law(outputs)
    assert (CallableSubject(as_callable(HONEST), REGION).sample(PLACE, 2000, rng()) == outputs).all()
    assert subject.log_ratio(PLACE, PLACE, outputs) is None


@pytest.mark.parametrize("kind", BAD)
def test_a_callable_that_fails_is_an_error(kind: str) -> None:
    expression, message = BAD[kind]
    with pytest.raises(AuditError, match=message) as caught:
        CallableSubject(as_callable(expression), REGION).sample(PLACE, 1000, rng())
    assert "37.7" not in str(caught.value).replace(str(REGION), "")
    assert "\n" not in str(caught.value)


def test_a_callable_that_hangs_is_given_up_on() -> None:
    subject = CallableSubject(as_callable("threading.Event().wait()"), REGION, timeout_s=0.1)
    with pytest.raises(AuditError, match=r"no answer within 0\.1 s"):
        subject.sample(PLACE, 10, rng())


def test_what_a_callable_does_to_its_input_harms_nobody() -> None:
    def publish(points: FloatArray, generator: np.random.Generator) -> FloatArray:
        points += generator.normal(0, 0.001, points.shape)
        return points

    check_law(CallableSubject(publish, REGION).sample(PLACE, 2000, rng()))


def test_wrong_usage_is_told_from_failure() -> None:
    with pytest.raises(UsageError, match="callable"):
        CallableSubject("numpy", REGION)  # type: ignore[arg-type]
    for timeout_s in (0, -1.0, float("inf"), "long"):
        with pytest.raises(UsageError, match="time limit"):
            CallableSubject(as_callable(HONEST), REGION, timeout_s=timeout_s)  # type: ignore[arg-type]


# -- a function of a module -----------------------------------------------------------------------------------


def test_a_function_is_given_a_place_for_every_row(tmp_path: Path) -> None:
    places = np.array([PLACE, PLACE, (37.6, -122.3), PLACE, (37.8, -122.5)])
    with ModuleSubject(as_file(tmp_path, "points"), REGION) as subject:
        outputs = subject.sample_each(places, rng())
    np.testing.assert_allclose(outputs, REGION.to_metres(places), atol=2e-6)


@pytest.mark.statistical
def test_a_function_is_sampled_in_one_process_that_ends_with_the_context(tmp_path: Path) -> None:
    """Repeatable by its generator. False-alarm rate below 1e-7."""
    target = as_file(tmp_path, HONEST)
    with ModuleSubject(target, REGION) as subject:
        source = rng()
        outputs = subject.sample(PLACE, 2000, source)
        check_law(outputs)
        process = subject._process
        assert not (subject.sample(PLACE, 2000, source) == outputs).any()
        assert process is subject._process
    assert process is not None
    assert process.returncode == 0
    with ModuleSubject(target, REGION) as subject:
        assert (subject.sample(PLACE, 2000, rng()) == outputs).all()
    subject.close()


def test_bad_functions_are_errors(tmp_path: Path) -> None:
    """All in one process for each, with the words that the callable's errors have."""
    bad = {**BAD, "ends the process": ("os._exit(7)", r"ended its process \(exit code 7\)")}
    bad["is killed"] = ("os.kill(os.getpid(), 11)", r"ended its process \(signal SIGSEGV\)")
    for kind in ("raises", "leaves", "nan", "too few", "words", "elsewhere", "ends the process", "is killed"):
        expression, message = bad[kind]
        with ModuleSubject(as_file(tmp_path, expression), REGION) as subject:
            with pytest.raises(AuditError, match=message):
                subject.sample(PLACE, 200, rng())
            if kind in ("raises", "ends the process"):
                # An error leaves nothing behind that would change the next one.
                with pytest.raises(AuditError, match=message):
                    subject.sample(PLACE, 200, rng())


def test_a_function_that_hangs_is_ended_and_its_children_too(tmp_path: Path) -> None:
    """Its module starts a child and tells us the child's number, before anything has a short deadline."""
    numbers = tmp_path / "numbers"
    target = as_file(tmp_path, "os.read(os.pipe()[0], 1)")
    with (tmp_path / "mechanism.py").open("a") as module:
        module.write(f"os.system('sleep 600 & echo $! > {numbers}')\n")
    with ModuleSubject(target, REGION) as subject:
        process = subject._started()
        subject.timeout_s = 0.5
        with pytest.raises(AuditError, match=r"no answer within 0\.5 s for 5 places and was ended"):
            subject.sample(PLACE, 10, rng())
    assert process.returncode == -9
    until(lambda: _gone(int(numbers.read_text())))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("publish", "names no function"),
        (":publish", "names no function"),
        ("nowhere.py:publish", "there is no file"),
        ("no.such.module:publish", "there is no module"),
        ("json:publish", "there is no 'publish' in json"),
        ("json:__name__", "is not a function"),
    ],
)
def test_a_function_that_is_not_there_is_wrong_usage(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message), ModuleSubject(target, REGION) as subject:
        subject.sample(PLACE, 10, rng())


def test_a_file_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module_at_all\n")
    with pytest.raises(AuditError, match="ModuleNotFoundError"), ModuleSubject(f"{path}:f", REGION) as subject:
        subject.sample(PLACE, 10, rng())


def test_a_function_of_an_installed_module_is_found() -> None:
    with ModuleSubject("builtins:max", REGION) as subject, pytest.raises(AuditError, match="failed with"):
        subject.sample(PLACE, 10, rng())


# -- a command ------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("streams", ["standard", "files", "in quotes"])
def test_a_command_is_sampled(streams: str, tmp_path: Path) -> None:
    """By its standard streams, by files, and from a string. False-alarm rate below 1e-7 each."""
    if streams == "files":
        body = (
            "rows = [noisy(row) for row in read(open(sys.argv[1]))]\n"
            "with open(sys.argv[2][6:], 'w') as stream: write(rows, stream)\nprint('done')\n"
        )
        arguments = [*as_script(tmp_path, body), "{input}", "--out={output}"]
    else:
        # More columns, in another order, do no harm.
        body = (
            "rows = map(noisy, read(sys.stdin))\n"
            "write([(number, b, a) for number, (a, b) in enumerate(rows)], header='id,lng,LAT')\n"
        )
        arguments = as_script(tmp_path, body)
    command = shlex.join(arguments) if streams == "in quotes" else arguments
    subject = CommandSubject(command, REGION)
    check_law(subject.sample(PLACE, 2000, rng()))


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    command = [*as_script(tmp_path, "sys.exit(' '.join(sys.argv[1:]))"), "$HOME;", "`true`", "{inputs}"]
    with pytest.raises(AuditError, match=r"exit code 1 and said: '\$HOME; `true` \{inputs\}'"):
        CommandSubject(command, REGION).sample(PLACE, 10, rng())


FAILING_COMMANDS = {
    "exit code": (
        "print('one', file=sys.stderr); print('last ' + 300 * 'z', file=sys.stderr); sys.exit(9)",
        "exit code 9",
    ),
    "signal": ("os.abort()", "signal SIGABRT"),
    "silent": ("", "cannot be read: it is empty"),
    "no header": ("write(map(noisy, read(sys.stdin)), header='37.1,-122.1')", "there is no location"),
    "one column": ("write([(1,)], header='latitude')", "there is no location"),
    "ragged": ("write([(37.7, -122.4), (37.7,)])", "row 2"),
    "no text": ("sys.stdout.buffer.write(bytes([255, 254, 0, 1]) * 99)", "cannot be read"),
    "words": ("write([('here', 'there')] * 100)", "row 1: 'latitude' or 'longitude' is empty or not a number"),
    "too few": ("write(read(sys.stdin)[1:])", "it must give"),
    "nan": ("write([('nan', 'nan') for row in read(sys.stdin)])", "not a number"),
    "elsewhere": ("write([(1, 1) for row in read(sys.stdin)])", "outside the region"),
    "exchanged": ("write([row[::-1] for row in read(sys.stdin)])", "not on Earth|exchanged"),
    "shared noise": (
        "rows = read(sys.stdin); shift = random.gauss(0, 0.001)\nwrite([(a + shift, b + shift) for a, b in rows])",
        "give each row its own noise",
    ),
    "shared noise and a little more": (
        "rows = read(sys.stdin); shift = 0.01 if len(rows) < 500 else -0.01\n"
        "write([noisy((a + shift, b)) for a, b in rows])",
        "give each row its own noise",
    ),
    "sorted": ("write(sorted(map(noisy, read(sys.stdin))))", "keep the rows in order"),
    "fixed seed": ("random.seed(1); write(map(noisy, read(sys.stdin)))", "fixed seed"),
}


@pytest.mark.parametrize("kind", FAILING_COMMANDS)
def test_a_command_that_fails_is_an_error(kind: str, tmp_path: Path) -> None:
    body, message = FAILING_COMMANDS[kind]
    with pytest.raises(AuditError, match=message) as caught:
        CommandSubject(as_script(tmp_path, body), REGION).sample(PLACE, 1000, rng())
    words = str(caught.value)
    assert "\n" not in words
    assert len(words) < 400
    assert str(tmp_path) not in words
    if kind == "exit code":
        assert words.count("z") == 200 - len("last ")
        assert "one" not in words


def test_a_command_that_writes_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="wrote no output file"):
        CommandSubject([*as_script(tmp_path, ""), "{output}"], REGION).sample(PLACE, 10, rng())


def test_a_command_that_hangs_is_ended_and_its_children_too(tmp_path: Path) -> None:
    """It waits for a child that waits for ever, and has told us their numbers."""
    numbers = tmp_path / "numbers"
    body = (
        "child = os.fork()\n"
        f"if child: open({str(numbers)!r}, 'w').write(f'{{os.getpid()}} {{child}}')\n"
        "os.read(os.pipe()[0], 1)\n"
    )
    with pytest.raises(AuditError, match=r"did not end within 5 s on 5 rows and was ended"):
        CommandSubject(as_script(tmp_path, body), REGION, timeout_s=5.0).sample(PLACE, 10, rng())
    for number in map(int, numbers.read_text().split()):
        until(partial(_gone, number))


def test_a_command_that_writes_for_ever_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.auditing.external._MOST_BYTES", 1 << 16)
    with pytest.raises(AuditError, match="wrote more than"):
        CommandSubject(as_script(tmp_path, "while True: print(9 * '1234567890')"), REGION).sample(PLACE, 10, rng())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "empty"),
        ([], "empty"),
        ("'unfinished", "quotation marks"),
        ("no-such-program-at-all", "there is no program"),
        ("/", "cannot be run"),
    ],
)
def test_a_command_that_cannot_be_run_is_wrong_usage(command: str | list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CommandSubject(command, REGION).sample(PLACE, 10, rng())


def test_every_error_is_one_of_ours() -> None:
    assert issubclass(AuditError, NearveilError)
    assert (AuditError.exit_code, UsageError.exit_code) == (4, 2)


# -- order ----------------------------------------------------------------------------------------------------

LATTICE = np.stack(np.meshgrid(np.linspace(37.6, 37.8, 10), np.linspace(-122.5, -122.3, 10)), axis=-1).reshape(-1, 2)


@pytest.mark.statistical
def test_rows_in_another_order_than_the_places_are_an_error() -> None:
    """False alarms, for the two that keep the order and the one that looks at nothing: below 1e-4."""
    shuffled = as_callable(f"rng.permutation({HONEST})")
    subject = CallableSubject(shuffled, REGION)
    # All rows are of one place, so that their order says nothing.
    check_law(subject.sample(PLACE, 2000, rng()))
    with pytest.raises(AuditError, match=r"another order.*places=") as caught:
        subject.sample_each(LATTICE, rng())
    assert "\n" not in str(caught.value)
    uniform = "rng.uniform([37.5, -122.6], [37.9, -122.2], points.shape)"
    for innocent in (HONEST, "points", uniform):
        assert len(CallableSubject(as_callable(innocent), REGION).sample_each(LATTICE, rng())) == len(LATTICE)


def test_the_order_that_protect_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random by default, which a search over the region cannot use and the audit of a pair can."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    protect = "nearveil protect {input} {output} --mechanism planar-laplace --noise 500m"
    kept = CommandSubject(f"{protect} --keep-order", REGION)
    west_then_east = np.repeat([[37.7, -122.5], [37.7, -122.3]], 50, axis=0)
    published = np.asarray(kept.publish(west_then_east, rng()))
    assert ((published[:, 1] > -122.4) == (west_then_east[:, 1] > -122.4)).all()
    published = np.asarray(CommandSubject(protect, REGION).publish(west_then_east, rng()))
    assert ((published[:, 1] > -122.4) != (west_then_east[:, 1] > -122.4)).any()


# -- independence ---------------------------------------------------------------------------------------------

LAWS: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "normal": lambda count, rng: rng.normal(size=(count, 2)),
    "cells": lambda count, rng: rng.integers(3, size=(count, 2)).astype(float),
    "constant": lambda count, _: np.ones((count, 2)),
    "skewed": lambda count, rng: rng.exponential(size=(count, 2)) ** 3 - 0.01,
}

FAULTY: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "shared": lambda count, rng: np.tile(rng.normal(size=2), (count, 1)),
    "shared by blocks of 5": lambda count, rng: np.repeat(rng.normal(size=(count // 5 + 1, 2)), 5, axis=0)[:count],
    "undone by the next": lambda count, rng: (rng.normal(size=(count, 1, 2)) * [[1.0], [-1.0]]).reshape(-1, 2)[:count],
    "a walk": lambda count, rng: np.cumsum(rng.normal(size=(count, 2)), axis=0),
    "narrower later": lambda count, rng: rng.normal(size=(count, 2)) * np.linspace(4, 0, count)[:, None],
    "sorted": lambda count, rng: np.sort(rng.normal(size=(count, 2)), axis=0),
    "the same again": lambda count, _: np.random.default_rng(7).normal(size=(count, 2)),
}


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_independent_rows_are_left_in_peace(law: str) -> None:
    """100 watches, five calls of different sizes each: false-alarm rate below 1e-6 in all."""
    source = rng(5)
    for _ in range(100):
        watch = IndependenceWatch()
        for count in (64, 500, 3, 200, 2001):
            watch.look_at(PLACE, np.zeros(2), LAWS[law](count, source))


@pytest.mark.parametrize("fault", FAULTY)
def test_rows_that_hang_together_are_noticed(fault: str) -> None:
    source, watch = rng(6), IndependenceWatch()
    with pytest.raises(AuditError, match="fixed seed" if fault == "the same again" else "own noise"):
        for _ in range(2):
            watch.look_at(PLACE, np.zeros(2), FAULTY[fault](4000, source))


def _gone(number: int) -> bool:
    return not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE
