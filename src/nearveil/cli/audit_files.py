"""The files of ``nearveil audit``: the witness and the picture, checked before the work and written after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearveil.audit.subjects import Subject
from nearveil.audit.witness import Witness
from nearveil.cli.console import warn
from nearveil.errors import UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.mechanisms.intervals import Intervals
from nearveil.report.audit_picture import draw_audit


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFiles:
    """Where to write."""

    witness: Path | None
    picture: Path | None
    force: bool

    def __post_init__(self) -> None:
        if self.witness is not None and self.witness.suffix.lower() != ".json":
            raise UsageError("--witness writes JSON; name a file that ends in .json")
        if self.picture is not None and self.picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        for path in (self.witness, self.picture):
            if path is not None:
                check_output(path, force=self.force)

    def write_witness(self, text: str | None) -> None:
        """Write the witness, if asked for and if there is one."""
        if self.witness is None:
            return
        if text is None:
            warn(f"nothing was counted, so there is no witness to write to {self.witness}")
            return
        with replacing(self.witness, force=self.force) as partial:
            partial.write_text(text, encoding="utf-8")

    def draw(self, witness: Witness | None, subject: Subject, intervals: Intervals | None, title: str) -> None:
        """Draw the picture, if asked for and if there is something to see."""
        if self.picture is None:
            return
        if witness is None:
            warn(f"nothing was counted, so there is nothing to draw in {self.picture}")
            return
        with replacing(self.picture, force=self.force) as partial:
            draw_audit(witness, subject, partial, title=title, intervals=intervals)
