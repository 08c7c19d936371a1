"""The paper as it is printed: one function for each definition, algorithm and formula, with the paper's symbols.

Sun, Fu, Ling, Li and Chen, "Protecting K-Nearest Neighbor Queries from Location Inference Attacks" (2026). This is a
reference to read and to compare with, so it needs NumPy and SciPy alone. Most of what the paper leaves open is a
keyword, the rest a comment; defaults are what Nearveil's tables use.

The order is that of the paper: queries (section 2), measures of an attack (3), attacks (4), the defense (5), what it is
said to cost (6), measures of utility (appendix A.2), and theorems on the law and its displacement (appendix C).

Points are arrays of shape (n, 2). Attacks take meters, the defense takes the square [-1, 1]², so that r = 1. "Line" is
a line of the algorithm as the paper numbers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import cKDTree
from scipy.special import ndtr

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Users: TypeAlias = Array | cKDTree
"""Where users are, by row; or a k-d tree of it, which spares making one for every call."""

Noise = Literal["laplace", "gaussian"]
"""Algorithm 2 or Algorithm 4."""

Outside = Literal["redraw", "keep", "clip", "as printed"]
"""What PIC does with a center that its noise throws out of the square: Algorithm 1 does not say. A random center takes
its place; it stays where it was a round before; it moves to the nearest point of the square; or it stays outside."""

Scale = Literal["accounted", "1/epsilon"] | tuple[float, float]
"""How wide the noise is: as Theorems 1 to 3 ask, or 1/ε for every answer and release, or these λ_c and λ_p."""

Radius = Literal["target", "rank k", "first at rank k"]
"""Where the colluder stops: as far away as the target is; at the farthest point, or at the first that the search comes
to, where its own rank is k. The paper has rank k. That is the target's rank at A_1, but not always at A_2."""


# Sections 2 and 3: queries, and how good an attack is.


def nearest_neighbors(D: Array, q: Array, k: int) -> Rows:
    """Return NN_q(k) of Definition 1: the rows of D that are no farther from q than the k-th nearest, ties included."""
    d = np.linalg.norm(D - q, axis=1)
    return np.flatnonzero(d <= np.partition(d, k - 1)[k - 1])


def ranked_neighbors(D: Users, L_q: Array, k: int, *, askers: Rows | None = None) -> Rows:
    """Return kNNQ(L_q) of section 3 for every row of L_q: the k nearest rows of D, the nearest first.

    A list has k users even where Definition 1 would have more. ``askers`` are the rows of D that the queries come from:
    no user is their own neighbor. Without them, queries come from anywhere; the paper does not say which.
    """
    nearest = tree_of(D).query(L_q, np.arange(1, k + 1 + (askers is not None)))[1]
    if askers is None:
        return nearest
    is_asker = nearest == askers[:, None]
    # An asker who is published elsewhere is not in the list.
    is_asker[~is_asker.any(axis=1), -1] = True
    return nearest[~is_asker].reshape(-1, k)


def tree_of(D: Users) -> cKDTree:
    """Return a k-d tree of users."""
    return D if isinstance(D, cKDTree) else cKDTree(D)


def attack_instance(D: Users, k: int, rng: Generator, *, near: float = 100.0) -> tuple[Array, int]:
    """Return A_1, here within ``near`` meters of a random user, and the target, which is at rank k there."""
    tree = tree_of(D)
    A_1 = uniform_in_discs(tree.data[rng.integers(tree.n)][None], near, rng)[0]
    return A_1, int(ranked_neighbors(tree, A_1, k)[-1])


def dist(L_inf: Array, L_t: Array) -> float:
    """Return Dist of section 3.3, the mean error."""
    return float(np.linalg.norm(L_inf - L_t, axis=1).mean())


def acc(L_inf: Array, L_t: Array, *, tau: float = 100.0) -> float:
    """Return Acc of section 3.3, the share of targets that are found within τ meters."""
    return float((np.linalg.norm(L_inf - L_t, axis=1) <= tau).mean())


def cost(T: Array) -> float:
    """Return Cost of section 3.3, the mean time of an attack; the paper does not say what takes its seconds."""
    return float(np.mean(T))


# Section 4: the attacks.


class Located(NamedTuple):
    """Where an attack has the target, and how many queries it took."""

    point: Array
    queries: int


class Service:
    """The service of section 3.1 as an attacker sees it: ranked lists, with one colluder who can be put anywhere."""

    COLLUDER = -1

    def __init__(self, X: Users, k: int) -> None:
        self.tree, self.k, self.queries = tree_of(X), k, 0
        self.colluder: Array | None = None  # not in the service

    def list_at(self, L_q: Array) -> list[int]:
        """Return kNNQ(L_q), with `COLLUDER` where the colluder is listed."""
        self.queries += 1
        distances, users = self.tree.query(L_q, np.arange(1, self.k + 1))
        listed = users.tolist()
        if self.colluder is not None:
            before = int(np.searchsorted(distances, np.linalg.norm(L_q - self.colluder)))
            listed.insert(before, self.COLLUDER)
        return listed[: self.k]

    def rank(self, L_q: Array, target: int) -> int:
        """Return the rank of the target from 1; k + 1 where it is not listed."""
        listed = self.list_at(L_q)
        return listed.index(target) + 1 if target in listed else self.k + 1


FARTHEST = 60_000.0
"""Where the search for a radius starts, in meters: no target is farther away. The paper does not say."""


def search_radius(
    service: Service, target: int, A: Array, rng: Generator, *, tolerance: float, radius: Radius
) -> float:
    """Return R of the circle C(A, R) that the target is on: a binary search with the colluder (section 4.1).

    The paper allows 100 queries, which a negative ``tolerance`` uses up, and does not say how exact the result is (in
    meters). With 100, GI-LIA's Dist is near that of Table 1; with 0.1 it is smaller.
    """
    ray = _direction(2 * math.pi * rng.random())
    low, high = 0.0, FARTHEST
    for _ in range(100):
        if high - low <= tolerance:
            break
        middle = (low + high) / 2
        service.colluder = A + middle * ray
        listed = service.list_at(A)
        if radius == "first at rank k" and listed[-1] == Service.COLLUDER:
            low = high = middle
            break
        # A colluder who is listed where the target is not is nearer than the target.
        rivals = (target, Service.COLLUDER) if radius == "target" else (Service.COLLUDER,)
        nearest = next((user for user in listed if user in rivals), target)
        low, high = (low, middle) if nearest == target else (middle, high)
    service.colluder = None
    return (low + high) / 2


def gi_lia(
    X: Users, target: int, A_1: Array, k: int, rng: Generator, *, tolerance: float = 0.1, radius: Radius = "target"
) -> Located:
    """Run GI-LIA (section 4.1, appendix A.1) against a service that has its users at X.

    A target that is lost from sight is taken to be at A_1.
    """
    service = Service(X, k)
    R_1 = search_radius(service, target, A_1, rng, tolerance=tolerance, radius=radius)
    # Four probes around A_1, R_1 away, and 0.8 times as far with every retry; the first that lists the target counts.
    steps = [R_1 * 0.8**retry * _direction(math.pi / 2 * probe) for retry in range(10) for probe in range(4)]
    A_2 = next((A_1 + step for step in steps if service.rank(A_1 + step, target) <= k), None)
    if A_2 is None:
        return Located(A_1, service.queries)
    R_2 = search_radius(service, target, A_2, rng, tolerance=tolerance, radius=radius)
    P_1, P_2 = circles_meet(A_1, R_1, A_2, R_2)
    nearer = P_1 if service.rank(P_1, target) <= service.rank(P_2, target) else P_2
    return Located(nearer, service.queries)


def circles_meet(A_1: Array, R_1: float, A_2: Array, R_2: float) -> tuple[Array, Array]:
    """Return the two points where circles meet; where they just miss each other, the point between them twice."""
    gap = math.dist(A_1, A_2)
    along = (gap**2 + R_1**2 - R_2**2) / (2 * gap)
    across = math.sqrt(max(R_1**2 - along**2, 0.0))
    u = (A_2 - A_1) / gap
    foot, side = A_1 + along * u, across * np.array([-u[1], u[0]])
    return foot + side, foot - side


def _direction(angle: float) -> Array:
    return np.array([math.cos(angle), math.sin(angle)])


def zo_lia(
    X: Users,
    target: int,
    A_1: Array,
    k: int,
    rng: Generator,
    *,
    step: Literal["tuned", "printed"] = "tuned",
    unit: float = 22_217.0,
    probes: Literal["better", "as printed"] = "better",
    tolerance: float = 0.1,
    radius: Radius = "target",
) -> Located:
    """Run ZO-LIA (section 4.2, appendix A.1) against a service that has its users at X.

    The paper has "the learning rate 0.005" and not how far away probes are. "printed" reads it as 0.005 of the square
    for both, where ``unit`` is the length of 1 in meters, by default that of the longer side of the paper's region.
    "tuned" is ours: shares of R_1 that shrink, and probes turned by 45° every other time, chosen to reproduce Table 1.

    ``probes`` that count are those "better" than all before them; "as printed", those not worse than the best of the
    last iteration, the less the worse they are. How ranks become a gradient is not printed, nor is its length.
    """
    service = Service(X, k)
    # Phase 1: the circle that the target is on.
    best = k  # the target's rank at A_1
    R_1 = search_radius(service, target, A_1, rng, tolerance=tolerance, radius=radius)
    P = A_1
    for iteration in range(10):
        if step == "tuned":
            reach, length, turn = 0.5 * R_1 * 0.85**iteration, 0.4 * R_1 * 0.85**iteration, iteration % 2 / 2
        else:
            reach, length, turn = 0.005 * unit, 0.005 * unit, 0.0
        # Phase 2: four probes; the better the target's rank, the more a direction counts.
        directions = [_direction(2 * math.pi * (probe + turn) / 4) for probe in range(4)]
        ranks = [service.rank(P + reach * direction, target) for direction in directions]
        # Phase 3: the pseudo-gradient; a probe that has lost the target has rank k + 1 and never counts.
        gain = [max(best + (probes == "as printed") - rank, 0) for rank in ranks]
        gradient = np.array(gain) @ np.array(directions)
        slope = float(np.linalg.norm(gradient))
        if slope > 1e-9:  # opposite probes of one rank cancel, but for rounding
            P = P + length * gradient / slope
        if slope > 1e-9 or probes == "as printed":
            best = min(best if probes == "better" else k, *ranks)
    # Phase 4: the target is on the circle, so the point that was reached is moved there.
    away = P - A_1 if (P != A_1).any() else _direction(0.0)
    return Located(A_1 + R_1 * away / np.linalg.norm(away), service.queries)


# Section 5, with Algorithm 3 of section 6 and Algorithm 4 of appendix C: the defense.


def pic(
    D: Array,
    lambda_c: float,
    rng: Generator,
    *,
    m: int = 800,
    N_c: int = 12,
    gamma: float = 0.5,
    outside: Outside = "redraw",
    floor: bool | None = None,
    initial: Literal["uniform", "users"] = "uniform",
) -> tuple[Array, Array, Rows]:
    """Build private intervals (Algorithm 1): return centers c_j, radii R_j, and everybody's cluster of the last round.

    The paper gives m from 600 to 1,000 for Figures 5 and 6 and none for Table 3, whose real data 800 fits.
    ``initial`` is its "initial centroid selection": random points, or random users, which gives them away. ``outside``
    is explained above. With ``floor``, noisy counts below 1 are raised to 1 before they divide: Algorithm 1 lets
    negative ones divide, and so does "as printed"; the other treatments do not unless they are told to.
    """
    floor = outside != "as printed" if floor is None else floor
    # Line 1. The paper calls the number k here and m below.
    c = rng.uniform(-1, 1, (m, 2)) if initial == "uniform" else D[rng.choice(len(D), m, replace=False)]
    for _ in range(N_c):  # line 2
        C = cKDTree(c).query(D)[1]  # line 3, as one assignment; "standard k-means" could also run to its end here
        # Line 4. Sums and counts, of empty clusters too; one user changes each by at most 1.
        sums = np.stack([np.bincount(C, weights=D[:, i], minlength=m) for i in (0, 1)], axis=1)
        num = np.bincount(C, minlength=m)
        noisy_sums = sums + rng.laplace(0, lambda_c, (m, 2))  # lines 5 to 7
        noisy_num = num + rng.laplace(0, lambda_c, m)  # line 8
        found = noisy_sums / np.maximum(noisy_num, 1.0 if floor else -np.inf)[:, None]  # line 9
        # Algorithm 1 leaves centers where they fall.
        instead = {"redraw": rng.uniform(-1, 1, (m, 2)), "keep": c, "clip": np.clip(found, -1, 1), "as printed": found}
        c = np.where((np.abs(found) > 1).any(axis=1, keepdims=True), instead[outside], found)
    return c, gamma * cKDTree(c).query(c, k=2)[0][:, 1], C  # lines 10 to 14


def rsm(
    x: Array,
    x_c: Array,
    R: Array | float,
    scale: float,
    rng: Generator,
    *,
    noise: Noise = "laplace",
    norm: Literal[1, 2] = 2,
    line_9: Literal["mended", "as printed"] = "mended",
) -> Array:
    """Move every row of x into its interval (x_c, R): Algorithm 2 with λ_p, or Algorithm 4 with σ, as the scale.

    ``norm`` is that of line 1. The paper prints a norm k there. If that is the n of its input, 1 for Laplace noise, M
    is too small for x inside the disc but outside the diamond in it, and points near x come too seldom. If it is 2,
    Theorem 7 holds. Line 9 "as printed" makes R smaller with every try, so that points near the center come too often.
    """
    x, x_c = np.atleast_2d(x), np.broadcast_to(x_c, np.shape(np.atleast_2d(x)))
    R = np.broadcast_to(np.asarray(R, dtype=np.float64), len(x)).copy()
    # Lines 1 to 6, as logarithms.
    is_inside = np.linalg.norm(x - x_c, ord=norm, axis=1) <= R
    B = boundary_points(x, x_c, R)
    log_M = np.where(is_inside, 0.0, log_f(B, x[:, None], scale, noise).max(axis=1))
    x_prime, waiting = np.empty_like(x), np.arange(len(x))
    while len(waiting):  # line 7, for all who wait at once
        u, u_1, u_2 = rng.random((3, len(waiting)))  # line 8
        length, theta = R[waiting] * np.sqrt(u_1), 2 * math.pi * u_2  # line 9
        if line_9 == "as printed":
            R[waiting] = length
        t = x_c[waiting] + length[:, None] * np.stack([np.cos(theta), np.sin(theta)], axis=1)  # line 10
        accepted = np.log(u) < log_f(t, x[waiting], scale, noise) - log_M[waiting]  # line 11
        x_prime[waiting[accepted]] = t[accepted]  # line 12
        waiting = waiting[~accepted]
    return x_prime


def log_f(t: Array, x: Array, scale: float, noise: Noise) -> Array:
    """Return ln f(t) for f ∝ p(t | x, λ_p) or p(t | x, σ² I), with f(x) = 1."""
    if noise == "laplace":
        return np.asarray(-np.abs(t - x).sum(axis=-1) / scale)
    return np.asarray(-((t - x) ** 2).sum(axis=-1) / (2 * scale**2))


def boundary_points(x: Array, x_c: Array, R: Array) -> Array:
    """Return GetBoundary(x_c, R), the candidates of line 4, for every row of x.

    The paper does not list them. The point of a circle that is nearest to x by the norm 2 lies towards x; by the norm 1
    it lies on a diagonal, or straight across from x. So these nine are enough for an exact M.
    """
    away = x - x_c
    length = np.linalg.norm(away, axis=1, keepdims=True)
    towards = np.divide(away, length, out=np.full_like(away, math.sqrt(0.5)), where=length > 0)
    diagonal = [np.broadcast_to([i, j], away.shape) / math.sqrt(2) for i in (-1, 1) for j in (-1, 1)]
    a = np.clip(np.divide(away, R[:, None], out=np.zeros_like(away), where=R[:, None] > 0), -1, 1)
    b = np.sqrt(1 - a**2)
    across = [np.stack([a[:, 0], sign * b[:, 0]], axis=1) for sign in (-1, 1)]
    across += [np.stack([sign * b[:, 1], a[:, 1]], axis=1) for sign in (-1, 1)]
    return np.asarray(x_c[:, None] + R[:, None, None] * np.stack([towards, *diagonal, *across], axis=1))


def uniform_in_discs(x_c: Array, R: Array | float, rng: Generator) -> Array:
    """Draw a uniform point of every disc: what RSM proposes, and what is left of it where λ_p is much larger than R."""
    length, theta = np.sqrt(rng.random(len(x_c))) * R, 2 * math.pi * rng.random(len(x_c))
    return np.asarray(x_c + np.stack([length * np.cos(theta), length * np.sin(theta)], axis=1))


def noise_and_resample(
    x: Array, x_c: Array, R: float, scale: float, rng: Generator, *, noise: Noise = "laplace"
) -> Array:
    """Add noise to x until it is in the interval, with which Figure 8 compares RSM."""
    draw = rng.laplace if noise == "laplace" else rng.normal
    x_prime, waiting = np.empty_like(x), np.arange(len(x))
    while len(waiting):
        t = x[waiting] + draw(0.0, scale, (len(waiting), 2))
        is_inside = np.linalg.norm(t - x_c, axis=1) <= R
        x_prime[waiting[is_inside]] = t[is_inside]
        waiting = waiting[~is_inside]
    return x_prime


class Disguised(NamedTuple):
    """What DPRS publishes, D', with its intervals, and the interval of every user, which nobody should learn."""

    points: Array
    centers: Array
    radii: Array
    interval: Rows


def dprs(
    D: Array,
    epsilon: float,
    rng: Generator,
    *,
    delta: float = 1e-5,
    m: int = 800,
    N_c: int = 12,
    gamma: float = 0.5,
    noise: Noise = "laplace",
    scale: Scale = "accounted",
    order: float | None = None,
    outside: Outside = "redraw",
    floor: bool | None = None,
    initial: Literal["uniform", "users"] = "uniform",
    norm: Literal[1, 2] = 2,
    line_9: Literal["mended", "as printed"] = "mended",
    clusters: Literal["nearest", "last round"] = "nearest",
    centers: Literal["private", "random"] = "private",
    point: Literal["rsm", "uniform"] = "rsm",
) -> Disguised:
    """Run DPRS (Algorithm 3) on users in the square.

    ``epsilon`` is the paper's ε_Total, for `scales_for`. ``clusters`` are those of line 2, which the paper does not
    define: everybody goes to the nearest of the final centers, or stays in their cluster of PIC's last round, whose
    center noise has moved since. ``centers`` and ``point`` take one part of DPRS away: random
    centers in place of PIC, a uniform point of the interval in place of RSM. The other keywords are those of the parts.
    """
    lambda_c, lambda_p = scales_for(epsilon, delta=delta, N_c=N_c, noise=noise, scale=scale, order=order)
    if centers == "private":  # line 1
        c, R, C = pic(D, lambda_c, rng, m=m, N_c=N_c, gamma=gamma, outside=outside, floor=floor, initial=initial)
    else:
        c = rng.uniform(-1, 1, (m, 2))
        R = gamma * cKDTree(c).query(c, k=2)[0][:, 1]
    if clusters == "nearest" or centers == "random":  # line 2
        C = cKDTree(c).query(D)[1]
    if point == "uniform":
        D_prime = uniform_in_discs(c[C], R[C], rng)
    else:  # lines 3 to 8, for everybody at once
        D_prime = rsm(D, c[C], R[C], lambda_p, rng, noise=noise, norm=norm, line_9=line_9)
    return Disguised(D_prime, c, R, C)


# Section 6: what DPRS is said to cost. Theorems 2, 3 and 5 do not hold; this is their arithmetic.


def epsilon_c(alpha: float, lambda_c: float, N_c: int = 12) -> float:
    """Return ε_c of Theorem 1: three answers of sensitivity 1 in each of N_c rounds."""
    return 3 * N_c * _log_g(alpha, lambda_c)


def epsilon_p(alpha: float, scale: float, noise: Noise = "laplace") -> float:
    """Return ε_p of Theorem 2, two axes of sensitivity 1; for Gaussian noise α - 1 times the loss in Theorem 5."""
    if noise == "laplace":
        return 2 * _log_g(alpha, scale)
    mu = math.sqrt(2)  # Appendix B. The last line of the proof divides by α² and means σ².
    return (alpha - 1) * alpha * mu**2 / (2 * scale**2)


def _log_g(alpha: float, lam: float) -> float:
    up = math.log(alpha / (2 * alpha - 1)) + (alpha - 1) / lam
    down = math.log((alpha - 1) / (2 * alpha - 1)) - alpha / lam
    return float(np.logaddexp(up, down))


def epsilon_total(alpha: float, eps_c: float, eps_p: float, delta: float = 1e-5) -> float:
    """Return ε_Total of Theorem 3, by Lemma 1 (losses add up) and Lemma 2 (from Rényi to ε and δ)."""
    return (eps_c + eps_p) / (alpha - 1) + _conversion(alpha, delta)


def _conversion(alpha: float, delta: float) -> float:
    return math.log((alpha - 1) / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)


@lru_cache(maxsize=1024)
def scales_for(
    epsilon: float,
    *,
    delta: float = 1e-5,
    N_c: int = 12,
    noise: Noise = "laplace",
    scale: Scale = "accounted",
    order: float | None = None,
) -> tuple[float, float]:
    """Return λ_c, and λ_p or σ, with which ε_Total is ``epsilon`` and ε_p = ε_c (appendix A.2).

    ``order`` is the α of that equation, which the paper does not give. By default it is the one at which ε_Total is
    least for the scales that result; infinity means plain composition without δ.
    """
    if isinstance(scale, tuple):
        return scale
    if scale == "1/epsilon":
        return 1 / epsilon, 1 / epsilon
    if order == math.inf:
        return 2 * 3 * N_c / epsilon, 2 * 2 / epsilon if noise == "laplace" else math.inf
    alpha = least_order(epsilon, delta=delta, N_c=N_c, noise=noise) if order is None else order
    share = (alpha - 1) * (epsilon - _conversion(alpha, delta)) / 2
    if share <= 0:
        raise ValueError(f"at order {alpha:g} nothing of epsilon {epsilon:g} is left for noise")
    return (
        _root(lambda lam: epsilon_c(alpha, lam, N_c) - share, 1e-3, 1e9),
        _root(lambda lam: epsilon_p(alpha, lam, noise) - share, 1e-3, 1e9),
    )


@lru_cache(maxsize=1024)
def least_order(epsilon: float, *, delta: float = 1e-5, N_c: int = 12, noise: Noise = "laplace") -> float:
    """Return the order α at which the scales for α have their least ε_Total."""

    def slope(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        lambda_c, lambda_p = scales_for(epsilon, delta=delta, N_c=N_c, noise=noise, order=alpha)

        def total(at: float) -> float:
            return epsilon_total(at, epsilon_c(at, lambda_c, N_c), epsilon_p(at, lambda_p, noise), delta)

        step = 1e-4 * (alpha - 1)
        return total(alpha + step) - total(alpha - step)

    # Below this order the conversion alone costs more than epsilon.
    lowest = _root(lambda excess: epsilon - _conversion(1 + excess, delta), 1e-9, 1e9)
    low = high = math.log(lowest) + 1e-6
    while slope(high) < 0:
        high += 1
    return 1 + math.exp(brentq(slope, low, high, xtol=1e-9))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function is zero between two numbers of very different size."""
    return math.exp(brentq(lambda log: function(math.exp(log)), math.log(low), math.log(high), xtol=1e-12))


# Appendix A.2: utility.


def recall(D: Array, D_prime: Array, q: Array, k: int, *, askers: Rows | None = None) -> float:
    """Return recall(q, k), the share of G(q) that is in P(q), as a mean over queries."""
    G, P = ranked_neighbors(D, q, k, askers=askers), ranked_neighbors(D_prime, q, k, askers=askers)
    return float((G[:, :, None] == P[:, None, :]).any(axis=2).mean())


def distance_ratio(
    D: Array, D_prime: Array, q: Array, k: int, *,
    pooled: bool = True, distances: Literal["true", "published"] = "true", askers: Rows | None = None,
) -> float:  # fmt: skip
    """Return the distance ratio: the sum of the distances of G(q) over that of P(q).

    The paper prints the ratio of one query, of which this is the mean; its numbers fit better if both sums are taken
    over all queries first (``pooled``). Nor does it say where users of P(q) count as being (``distances``): where they
    are, or where they are published.
    """
    G, P = ranked_neighbors(D, q, k, askers=askers), ranked_neighbors(D_prime, q, k, askers=askers)
    to_G = np.linalg.norm(D[G] - q[:, None], axis=2).sum(axis=1)
    to_P = np.linalg.norm((D if distances == "true" else D_prime)[P] - q[:, None], axis=2).sum(axis=1)
    return float(to_G.sum() / to_P.sum() if pooled else (to_G / to_P).mean())


def distance_mse(D: Array, D_prime: Array, q: Array, k: int, *, askers: Rows | None = None) -> float:
    """Return the MSE of Figure 9, which the paper does not define: of the distances to G(q), published against true."""
    G = ranked_neighbors(D, q, k, askers=askers)
    true, published = (np.linalg.norm(places[G] - q[:, None], axis=2) for places in (D, D_prime))
    return float(((published - true) ** 2).mean())


# Appendix C: the law of RSM (Theorems 4 and 7), and how far it moves x (Theorems 6 and 8).


def law_nodes(x_c: Array, R: float, *, circles: int = 300, angles: int = 360) -> tuple[Array, Array]:
    """Return points of the disc and the areas that they stand for: quadrature by the middle of each part."""
    length = R * (np.arange(circles) + 0.5) / circles
    theta = 2 * math.pi * (np.arange(angles) + 0.5) / angles
    nodes = length[:, None, None] * np.stack([np.cos(theta), np.sin(theta)], axis=1)
    area = np.repeat(length * (R / circles) * (2 * math.pi / angles), angles)
    return np.asarray(x_c + nodes.reshape(-1, 2)), area


def law(t: Array, x: Array, x_c: Array, R: float, scale: float, *, noise: Noise = "laplace") -> Array:
    """Return p(t | x), the density that Theorems 4 and 7 state, N_C by quadrature."""
    nodes, area = law_nodes(x_c, R)
    N_C = np.exp(log_f(nodes, x, scale, noise)) @ area
    inside = np.linalg.norm(t - x_c, axis=-1) <= R
    return np.asarray(np.where(inside, np.exp(log_f(t, x, scale, noise)) / N_C, 0.0))


def expected_displacement(x: Array, scale: float, *, noise: Noise = "laplace") -> float:
    """Return what Theorems 6 and 8 bound: E‖x' - x‖₁ for x_c = 0 and R = 1, by quadrature.

    Theorem 6 prints |x' - x| without a norm; its proof has this one.
    """
    nodes, area = law_nodes(np.zeros(2), 1.0)
    density = law(nodes, x, np.zeros(2), 1.0, scale, noise=noise)
    return float(np.abs(nodes - x).sum(axis=1) @ (density * area))


def theorem_6(sigma: float) -> float:
    """Return the bound of Theorem 6 (Gaussian). It fails for x outside the disc, and so does that of Theorem 8."""
    return sigma * math.sqrt(2 / math.pi) * (1 - math.exp(-2 / sigma**2)) / (float(ndtr(2 / sigma)) - 0.5)


def theorem_8(lam: float) -> float:
    """Return the bound of Theorem 8 (Laplace)."""
    return 2 * (lam - 2 / math.expm1(2 / lam))
