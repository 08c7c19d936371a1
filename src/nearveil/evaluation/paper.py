"""The paper as it is printed: one function for each definition, algorithm and formula, with its symbols.

Sun, Fu, Ling, Li and Chen, "Protecting K-Nearest Neighbor Queries from Location Inference Attacks" (2026). This is a
reference to read and to compare with: NumPy and SciPy, and nothing else of Nearveil. What the paper leaves open is a
keyword, and the first value of each keyword is the one that Nearveil's tables use unless they say otherwise.

The order is that of the paper: section 3 (queries, measures of an attack), section 4 (the attacks), section 5 (the
defense), section 6 (what it is said to cost), appendix (measures of utility, theorems about displacement).

Points are arrays of shape (n, 2). The attacks take meters, the defense takes the square [-1, 1]², so r = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import cKDTree
from scipy.special import ndtr

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

Noise = Literal["laplace", "gaussian"]
Outside = Literal["redraw", "keep", "clip", "as printed"]
Scale = Literal["accounted", "1/epsilon"] | tuple[float, float]
Step = Literal["tuned", "printed"]


# Section 2 and 3: queries, and how good an attack is.


def nearest_neighbors(D: Array, q: Array, k: int) -> Rows:
    """Return NN_q(k) of Definition 1: the rows of D that are no farther from q than the k-th nearest, ties included."""
    raise NotImplementedError


def ranked_neighbors(D: Array | cKDTree, Q: Array, k: int, *, askers: Rows | None = None) -> Rows:
    """Return kNNQ(L_q) of section 3 for every row of Q: the k nearest rows of D, the nearest first.

    ``askers`` are rows of D that ask from where they are: nobody is their own neighbor.
    """
    raise NotImplementedError


def attack_instance(D: Array | cKDTree, k: int, rng: np.random.Generator, *, near: float = 100.0) -> tuple[Array, int]:
    """Return A_1, a point within ``near`` meters of a random user, and the row of the k-th nearest: the target.

    The paper says that the target appears at rank k, and not where A_1 is; the 100 m are ours.
    """
    raise NotImplementedError


def dist(L_inf: Array, L_t: Array) -> float:
    """Return Dist of section 3.3, the mean error."""
    raise NotImplementedError


def acc(L_inf: Array, L_t: Array, tau: float = 100.0) -> float:
    """Return Acc of section 3.3, the share of targets that are found within τ meters."""
    raise NotImplementedError


def cost(T: Array) -> float:
    """Return Cost of section 3.3, the mean time of an attack in seconds; queries can be averaged as well."""
    raise NotImplementedError


# Section 4: the attacks.


class Located(NamedTuple):
    """What an attack found, and the number of queries that it took."""

    point: Array
    queries: int


def gi_lia(
    X: Array | cKDTree,
    target: int,
    A1: Array,
    k: int,
    rng: np.random.Generator,
    *,
    tolerance: float = 0.1,
    farthest: float = 60_000.0,
) -> Located:
    """Run GI-LIA (section 4.1) against a service that has everybody at X."""
    raise NotImplementedError


def zo_lia(
    X: Array | cKDTree,
    target: int,
    A1: Array,
    k: int,
    rng: np.random.Generator,
    *,
    step: Step = "tuned",
    unit: float | None = None,
    tolerance: float = 0.1,
    farthest: float = 60_000.0,
) -> Located:
    """Run ZO-LIA (section 4.2) against a service that has everybody at X.

    ``unit`` is the length of one unit of the square in meters, for the printed learning rate.
    """
    raise NotImplementedError


# Section 5 and Appendix B: the defense.


def pic(
    D: Array,
    lambda_c: float,
    rng: np.random.Generator,
    *,
    m: int = 800,
    N_c: int = 12,
    gamma: float = 0.5,
    outside: Outside = "redraw",
    initial: Literal["uniform", "users"] = "uniform",
) -> tuple[Array, Array]:
    """Run Algorithm 1 and return the centers c_j and radii R_j of the intervals."""
    raise NotImplementedError


def rsm(
    x: Array,
    x_c: Array,
    R: Array | float,
    scale: float,
    rng: np.random.Generator,
    *,
    noise: Noise = "laplace",
    norm: Literal[2, 1] = 2,
    line_9: Literal["R kept", "as printed"] = "R kept",
) -> Array:
    """Run Algorithm 2 (Laplace, ``scale`` is λ_p) or 4 (Gaussian, ``scale`` is σ) for every row of x."""
    raise NotImplementedError


def noise_and_resample(
    x: Array, x_c: Array, R: Array | float, scale: float, rng: np.random.Generator, *, noise: Noise = "laplace"
) -> tuple[Array, int]:
    """Return what Figure 8 compares RSM with, noise that is drawn until it lies in the interval, and all tries."""
    raise NotImplementedError


class Disguised(NamedTuple):
    """What DPRS publishes, D', its intervals, and the interval of every user, which stays secret."""

    points: Array
    centers: Array
    radii: Array
    interval: Rows


def dprs(
    D: Array,
    epsilon: float,
    rng: np.random.Generator,
    *,
    delta: float = 1e-5,
    m: int = 800,
    N_c: int = 12,
    gamma: float = 0.5,
    noise: Noise = "laplace",
    outside: Outside = "redraw",
    scale: Scale = "accounted",
    order: float | None = None,
    centers: Literal["private", "random"] = "private",
    point: Literal["rsm", "uniform"] = "rsm",
    norm: Literal[2, 1] = 2,
    initial: Literal["uniform", "users"] = "uniform",
) -> Disguised:
    """Run Algorithm 3 on users in the square [-1, 1]²."""
    raise NotImplementedError


# Section 6: the accounting.


class Scales(NamedTuple):
    """The noise of DPRS: λ_c of PIC, λ_p or σ of RSM, and the order α that they are accounted at."""

    lambda_c: float
    lambda_p: float
    alpha: float


def epsilon_c(alpha: float, lambda_c: float, N_c: int = 12) -> float:
    """Return ε_c of Theorem 1."""
    raise NotImplementedError


def epsilon_p(alpha: float, lambda_p: float, noise: Noise = "laplace") -> float:
    """Return ε_p of Theorem 2; for Gaussian noise (α - 1) times the loss of Theorem 5."""
    raise NotImplementedError


def epsilon_total(alpha: float, eps_c: float, eps_p: float, delta: float = 1e-5) -> float:
    """Return ε_Total of Theorem 3."""
    raise NotImplementedError


def accounted_scales(
    epsilon: float, *, delta: float = 1e-5, N_c: int = 12, noise: Noise = "laplace", order: float | None = None
) -> Scales:
    """Return the scales at which ε_Total is ``epsilon`` and ε_p = ε_c, as the parameter settings ask."""
    raise NotImplementedError


# Appendix A: utility.


def recall(D: Array, D_prime: Array, Q: Array, k: int, *, askers: Rows | None = None) -> float:
    """Return recall(q, k), the share of G(q) in P(q), as a mean over queries."""
    raise NotImplementedError


def distance_ratio(
    D: Array, D_prime: Array, Q: Array, k: int, *, pooled: bool = False, askers: Rows | None = None
) -> float:
    """Return the distance ratio: the mean of all queries' own, as printed, or of all sums together (``pooled``)."""
    raise NotImplementedError


def distance_mse(D: Array, D_prime: Array, Q: Array, k: int, *, askers: Rows | None = None) -> float:
    """Return the distance MSE of Figure 9."""
    raise NotImplementedError


# Appendix C: what the theorems say about the law and the displacement.


def theorem_6(sigma: float) -> float:
    """Return the bound on the expected displacement by Gaussian RSM (the paper prints it twice with other numbers)."""
    raise NotImplementedError


def theorem_8(lam: float) -> float:
    """Return the bound on the expected displacement by Laplace RSM."""
    raise NotImplementedError
