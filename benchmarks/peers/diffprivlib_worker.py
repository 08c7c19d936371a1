"""Run by the Python of diffprivlib's environment: fits once, and prints seconds and rounds as JSON."""

import json
import sys
import time
from importlib import import_module

import numpy as np


def main() -> None:
    """Read the points, fit, print."""
    points, centres, half_width, half_height = sys.argv[1:]
    x = np.load(points)
    bounds = ([-float(half_width), -float(half_height)], [float(half_width), float(half_height)])
    models = import_module("diffprivlib.models")
    model = models.KMeans(n_clusters=int(centres), epsilon=1.0, bounds=bounds)
    started = time.perf_counter()
    model.fit(x)
    print(json.dumps({"seconds": time.perf_counter() - started, "rounds": int(model.n_iter_)}))


if __name__ == "__main__":
    main()
