"""The options that say how to protect, the same for every command that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from nearveil.cli.mechanism_choice import (
    EpsilonOption,
    EpsilonPerKmOption,
    FitEpsilonOption,
    HideWithinOption,
    IntervalsOption,
    LeastRadiusOption,
    MechanismOption,
    NoiseOption,
    ReleaseOption,
    Wish,
)
from nearveil.cli.options import (
    CentresOption,
    DeltaOption,
    FitMethodOption,
    GammaOption,
    PopulationOption,
    RoundsOption,
    read_intervals,
)


def takes_protection(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of protection in place of its parameter ``wish``.

    Typer reads options off a function's signature, so the signature is put together here: the command's own
    parameters, with the options where ``wish`` stood.
    """
    own = inspect.signature(command).parameters
    options = inspect.signature(_protection).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        parameters += options.values() if name == "wish" else [parameter]
    hints = {**get_type_hints(command, include_extras=True), **get_type_hints(_protection, include_extras=True)}

    def run(**given: Any) -> None:
        wished = {name: given.pop(name) for name in options}
        file = wished.pop("intervals")
        command(**given, wish=Wish(**wished, intervals=read_intervals(file), intervals_file=file))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: hints[parameter.name] for parameter in parameters} | {"return": None}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters]
    )
    return run


def _protection(
    *,
    mechanism: MechanismOption = None,
    release: ReleaseOption = None,
    noise: NoiseOption = None,
    hide_within: HideWithinOption = None,
    epsilon_per_km: EpsilonPerKmOption = None,
    epsilon: EpsilonOption = None,
    fit_epsilon: FitEpsilonOption = None,
    delta: DeltaOption = None,
    intervals: IntervalsOption = None,
    centres: CentresOption = None,
    rounds: RoundsOption = None,
    gamma: GammaOption = None,
    fit_method: FitMethodOption = None,
    population: PopulationOption = None,
    least_radius: LeastRadiusOption = None,
) -> None:
    """Only its signature is used."""
