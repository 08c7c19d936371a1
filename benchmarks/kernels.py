"""The kernels beside their peers."""

import os

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans

from benchmarks.timing import best_seconds, row
from nearveil import build_pic_intervals, named_region
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.chord_law import GAUSSIAN, LAPLACE
from nearveil.mechanisms.disc_sampler import sample_discs
from nearveil.mechanisms.nearest_centre import nearest_centre_table
from nearveil.mechanisms.noise_and_resample import noise_and_resample
from nearveil.randomness import secure_generator
from nearveil.types import FloatArray

POINTS = 1_000_000


def compare_randomness() -> list[str]:
    """Secure numbers against PCG64 and the operating system's."""
    secure, plain = secure_generator(), np.random.Generator(np.random.PCG64())
    ours = best_seconds(lambda: secure.random(10 * POINTS))
    return [
        row("10 M uniforms, AES counter mode", ours, "NumPy PCG64", best_seconds(lambda: plain.random(10 * POINTS))),
        row("10 M uniforms, AES counter mode", ours, "os.urandom", best_seconds(lambda: os.urandom(80 * POINTS))),
    ]


def compare_nearest_centre() -> list[str]:
    """The candidate table against scipy's KD-tree, and private k-means against scikit-learn's k-means."""
    region = named_region("san-francisco")
    people = synthetic_city(200_000, region, rng=1)
    square = region.to_square(people)
    centres = build_pic_intervals(people, region=region, scale=34.5, rng=1).centres
    table, tree = nearest_centre_table(np.ascontiguousarray(centres), region.half_extent_square), cKDTree(centres)

    def private_k_means() -> object:
        return build_pic_intervals(people, region=region, scale=34.5, rng=1)

    def plain_k_means() -> object:
        return KMeans(800, init="random", n_init=1, max_iter=12, tol=0).fit(square)

    return [
        row("nearest of 800 centres, 200 k points", best_seconds(lambda: table(square)), "scipy cKDTree",
            best_seconds(lambda: tree.query(square))),
        row("private k-means, 800 centres, 12 rounds, 200 k", best_seconds(private_k_means), "scikit-learn KMeans",
            best_seconds(plain_k_means, runs=1)),
    ]  # fmt: skip


def sampler_seconds(noise: int, x: FloatArray, radius: float, scale: float) -> float:
    """Time to draw one point for each row of x."""
    disc, centre = np.zeros(len(x), dtype=np.int64), np.zeros((1, 2))
    radii, scales = np.array([radius], dtype=float), np.array([scale], dtype=float)
    rng = secure_generator()
    return best_seconds(lambda: sample_discs(noise, x, disc, centre, radii, scales, rng), runs=2)


def in_disc(radius: float, count: int) -> FloatArray:
    """Points uniform on the disc."""
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * rng.random(count)
    points: FloatArray = radius * np.sqrt(rng.random(count))[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return points


def compare_sampler() -> list[str]:
    """Time does not depend on how rarely uniform proposals would be accepted."""
    lines = []
    for name, noise in (("Laplace", LAPLACE), ("Gaussian", GAUSSIAN)):
        times = {
            (radius, scale): sampler_seconds(noise, in_disc(radius, POINTS), radius, scale)
            for radius in (0.01, 0.1, 0.3, 1.0)
            for scale in (0.02, 0.1, 0.5, 1.0, 4.0, 20.0)
        }
        worst = max(times, key=lambda key: times[key])
        ratio = times[worst] / min(times.values())
        lines.append(
            f"  {name}: 1 M points in the disc, R 0.01 to 1, scale 0.02 to 20: slowest {times[worst]:.2f} s at "
            f"R = {worst[0]:g}, scale = {worst[1]:g}; {ratio:.1f} times the best case (limit 10)"
        )
        outside = {
            (distance, scale): 100_000 / sampler_seconds(noise, distance * _ring(100_000), 1.0, scale)
            for distance in (1.001, 1.5, 10.0, 1e3, 1e6)
            for scale in (0.02, 0.3, 1.0, 20.0)
        }
        worst = min(outside, key=lambda key: outside[key])
        lines.append(
            f"  {name}: outside the disc, up to 10^6 radii away: at least {outside[worst]:,.0f} points/s at distance "
            f"{worst[0]:g} R, scale = {worst[1]:g} (limit 100,000)"
        )
    return lines


def compare_resampling() -> list[str]:
    """The paper's comparator, on people near the disc where it still ends."""
    return [
        row(
            f"20 k points, epsilon = 1, R = {radius:g}",
            sampler_seconds(LAPLACE, in_disc(radius, 20_000), radius, 4.94),
            "noise and resample",
            _resampling_seconds(in_disc(radius, 20_000), radius, 4.94),
        )
        for radius in (0.05, 0.5)
    ]


def _resampling_seconds(x: FloatArray, radius: float, scale: float) -> float:
    rng = secure_generator()

    def resample() -> object:
        return noise_and_resample(x, centre=(0.0, 0.0), radius=radius, scale=scale, noise="laplace", rng=rng)

    return best_seconds(resample, runs=1)


def _ring(count: int) -> FloatArray:
    angle = np.linspace(0, 2 * np.pi, count)
    return np.column_stack([np.cos(angle), np.sin(angle)])
