"""``make bench``: Nearveil beside its peers, in one run on one machine, printed as ratios."""

from benchmarks import attacks, command, kernels

SECTIONS = (
    ("Randomness", kernels.compare_randomness),
    ("Intervals", kernels.compare_nearest_centre),
    ("Sampling in discs", kernels.compare_sampler),
    ("The paper's comparator", kernels.compare_resampling),
    ("nearveil protect", command.measure_command),
    ("Attacks", attacks.measure_attacks),
)


def main() -> None:
    """Print every section as it is measured."""
    for title, measure in SECTIONS:
        print(title, flush=True)
        for line in measure():
            print(line, flush=True)


if __name__ == "__main__":
    main()
