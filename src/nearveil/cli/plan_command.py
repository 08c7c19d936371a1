"""The command line that does what a plan recommends."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from nearveil.cli.options import DEFAULT_REGION
from nearveil.evaluation.defences import Defence
from nearveil.io.files import FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What was said about the file, to be said again."""

    source: Path
    region: str | None = None
    latitude: str | None = None
    longitude: str | None = None
    clip: bool = False

    def words(self) -> list[str]:
        """The input, an output beside nobody's file, and the options."""
        columns = [("--latitude", self.latitude), ("--longitude", self.longitude)]
        return [
            *(str(self.source), self._output()),
            *("--region", DEFAULT_REGION if self.region is None else self.region),
            *(word for name, value in columns if value is not None for word in (name, value)),
            *(["--clip"] if self.clip else []),
        ]

    def _output(self) -> str:
        name = self.source.name
        extension = next((each for each in sorted(FORMATS, key=len, reverse=True) if name.lower().endswith(each)), "")
        output = f"protected{extension}"
        return output if output != name else f"published{extension}"


def protect_command(defence: Defence, options: FileOptions) -> str:
    """Return the ``nearveil protect`` that runs a defence, without a seed."""
    return shlex.join(["nearveil", "protect", *options.words(), *_defence_words(defence)])


def _defence_words(defence: Defence) -> list[str]:
    if defence.kind == "planar-laplace":
        return ["--mechanism", "planar-laplace", "--hide-within", f"{defence.hide_within_m:.12g}m"]
    if defence.kind != "dprs" or defence.release == "paper" or defence.centres_from == "public":
        raise TypeError("a plan recommends only planar Laplace and the sound releases of DPRS")
    strength = (
        ["--hide-within", f"{defence.hide_within_m:.12g}m"]
        if defence.release == "metric"
        else ["--epsilon", f"{defence.epsilon:g}", *(["--noise", "gaussian"] if defence.noise == "gaussian" else [])]
    )
    return [
        *("--release", defence.release, *strength),
        *("--fit-method", defence.centres_from, "--fit-epsilon", f"{defence.fit_epsilon:g}"),
        *("--centres", f"{defence.centres}"),
    ]
