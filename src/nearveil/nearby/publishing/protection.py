"""Protection: what a running service does to every report, and the card that says what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nearveil.errors import UsageError
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.nearby.publishing.cards import fresh_card, off_card, place_card
from nearveil.nearby.publishing.keyed import keyed_bytes
from nearveil.nearby.publishing.place_grid import PlaceGrid, grid_for
from nearveil.nearby.publishing.schedule import Schedule
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import Region


class Policy(StrEnum):
    """What happens to somebody who reports again and again."""

    PLACE = "place"
    """Noise per place: staying and coming back repeat the same point; only a new place is a new release."""
    FRESH = "fresh"
    """Fresh noise at every border, with the window's budget divided among its epochs."""
    OFF = "off"
    """No protection: true places are published at once. For demonstrations only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How reports are perturbed: the metric release, on a schedule.

    Parameters
    ----------
    region : Region
        Public.
    policy : Policy
        What happens to repeated reports.
    hide_within_m : float
        Mean length of the noise of a place; with fresh noise, what all draws of a window give together.
    new_places : int
        Policy ``place``: how many places of a person are published in a window.
    schedule : Schedule
        Epochs and windows.
    """

    region: Region
    policy: Policy = Policy.PLACE
    hide_within_m: float = 500.0
    new_places: int = 20
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", _as_policy(self.policy))
        if (
            isinstance(self.new_places, bool)
            or not isinstance(self.new_places, int)
            or not 1 <= self.new_places <= 10_000
        ):
            raise UsageError("the budget of new places per window is a whole number from 1 to 10,000")
        _ = self.noise

    @property
    def noise(self) -> PlanarLaplace:
        """The noise of one draw."""
        draws = self.schedule.epochs_per_window if self.policy is Policy.FRESH else 1
        return PlanarLaplace(hide_within_m=self.hide_within_m * draws, region=self.region)

    @property
    def grid(self) -> PlaceGrid:
        """The public grid of places."""
        return grid_for(self.hide_within_m)

    @property
    def fixed(self) -> tuple[str, ...]:
        """What cannot change while a store is in use, as text: everything that the noise of a place depends on."""
        region, schedule = self.region, self.schedule
        return (
            repr((region.south, region.west, region.north, region.east)),
            str(self.policy),
            repr(self.hide_within_m),
            repr((schedule.epoch_s, schedule.epochs_per_window)),
        )

    def own_key(self, noise_key: bytes) -> bytes:
        """Return the key of this service's places.

        Services that share a key file and differ in anything that is fixed have nothing in common: with one noise
        around two centres, or at two scales, whoever sees both could solve for the place.
        """
        return keyed_bytes(noise_key, "nearveil service", *(part.encode() for part in self.fixed))

    @property
    def most_charges(self) -> int:
        """How many draws of a person are published in a window at most."""
        return self.new_places if self.policy is Policy.PLACE else self.schedule.epochs_per_window

    @property
    def guarantee(self) -> Guarantee:
        """What the published places promise, and what they do not."""
        window = self.schedule.window
        if self.policy is Policy.OFF:
            return off_card()
        if self.policy is Policy.FRESH:
            return fresh_card(self.noise, draws=self.schedule.epochs_per_window, window=window)
        return place_card(self.noise, grid=self.grid, places=self.new_places, window=window)


def _as_policy(value: object) -> Policy:
    try:
        return Policy(value)  # type: ignore[arg-type]
    except ValueError:
        raise UsageError(f"the policy is one of: {', '.join(Policy)}") from None
