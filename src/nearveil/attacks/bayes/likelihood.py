"""What a channel tells an attacker."""

from __future__ import annotations

from collections.abc import Callable

from nearveil.types import FloatArray

Likelihood = Callable[[FloatArray], FloatArray]
"""Published places (m, 2) in degrees to log-likelihoods (places, m)."""
