"""The pictures of ``nearveil attack``: one attack, drawn and animated."""

from __future__ import annotations

from pathlib import Path

from nearveil.attacks.base import AttackResult
from nearveil.attacks.oracle import spot_of
from nearveil.cli.console import warn
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment
from nearveil.evaluation.attack_trials import Contender, Trial
from nearveil.io.atomic import check_output, replacing
from nearveil.report.attack_figure import draw_attack
from nearveil.report.attack_gif import animate_attack, animation_kind
from nearveil.report.attack_scene import Scene


class AttackPictures:
    """Where to draw, checked before anything takes time."""

    def __init__(self, trace: Path | None, animate: Path | None, *, force: bool) -> None:
        if trace is not None and trace.suffix.lower() != ".png":
            raise UsageError("--trace draws a PNG picture; name a file that ends in .png")
        if animate is not None:
            animation_kind(animate)
        for path in (trace, animate):
            if path is not None:
                check_output(path, force=force)
        self._trace, self._animate, self._force = trace, animate, force

    def draw(self, experiment: AttackExperiment, fighters: list[Contender], k: int, person: int | None) -> None:
        """Repeat the first attack, and draw it."""
        if self._trace is None and self._animate is None:
            return
        chosen = next((one for one in fighters if one.attack.name == "adaptive"), fighters[0])
        setup = experiment.setup(0)
        trial = Trial(setup, chosen, k, experiment.instances(0, k, person))
        result = trial.run_one(0, setup.open())
        draw_one(
            result,
            experiment,
            trial.instances[0].target,
            self._trace,
            self._animate,
            tau_m=experiment.protocol.tau_m,
            force=self._force,
        )

    def say_where(self) -> None:
        """Tell where the pictures are, and what is in them."""
        paths = [path for path in (self._trace, self._animate) if path is not None]
        if paths:
            # Not on standard output, which may be JSON for a program.
            warn(f"where people truly are can be seen in {' and '.join(map(str, paths))}: for your eyes")


def draw_one(
    result: AttackResult,
    experiment: AttackExperiment,
    target: int,
    trace: Path | None,
    animation: Path | None,
    *,
    tau_m: float,
    force: bool,
) -> None:
    """Draw one attack as a picture and as an animation."""
    setup, protected = experiment.setup(0), experiment.published(0).mechanism is not None
    scene = Scene(
        result,
        setup.region,
        setup.served_m,
        truth=spot_of(experiment.true_m[target]),
        tau_m=tau_m,
        published=spot_of(setup.served_m[target]) if protected else None,
    )
    title = f"{result.attack} on {experiment.dataset.name}" + (", protected" if protected else "")
    if trace is not None:
        with replacing(trace, force=force) as partial:
            draw_attack(scene, partial, title=title)
    if animation is not None:
        with replacing(animation, force=force) as partial:
            animate_attack(scene, partial, kind=animation_kind(animation), title=title)
