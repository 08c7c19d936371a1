"""Outcomes to render: every kind of value and picture, and names that would like to be markup."""

from dataclasses import replace

import numpy as np

from nearveil.evaluation.results import (
    Axis,
    Chart,
    Column,
    Curve,
    ExperimentResult,
    Exploration,
    KeyFinding,
    Map,
    MapLayer,
    MapPanel,
    Panel,
    Series,
    Table,
    exact,
)
from nearveil.evaluation.stats import Mean, Share
from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region

REGION = named_region("san-francisco")
CITY = synthetic_city(1500, REGION, rng=1)
EVIL = '</script><script>alert(1)</script> & "<b>"'

TABLE = Table(
    name="recall",
    caption="Recall of <everything>",
    columns=(
        Column("mechanism"),
        Column("epsilon", form="g"),
        Column("recall", group="users"),
        Column("paper", group="users"),
        Column("people", form=",d"),
    ),
    rows=(
        ("DPRS", 0.5, Mean(0.4642, 0.0101), 0.434, 13931),
        ("SRR", 1, Mean(0.05, None), None, 900),
        (EVIL, 10, None, 0.398, 25000),
        ("a|b", 3, Mean(0.4, 0.2), 1 / 3, 900),
    ),
    protocol="5 runs; k = 10.",
)


def line(label: str, *points: tuple[float, float], half_width: float | None = None, kind: str = "line") -> Series:
    means = tuple(Mean(y, half_width) for _, y in points)
    return Series(label, tuple(exact(x) for x, _ in points), means, kind)  # type: ignore[arg-type]


CHART = Chart(
    name="recall_chart",
    title="Recall & epsilon",
    panels=(
        Panel(
            "brightkite", "epsilon", "recall@10",
            (
                line("DPRS", (0.5, 0.4), (1, 0.45), (5, 0.5), half_width=0.02),
                line("DPRS", (1, 0.46), kind="paper"),
                line("mine", (0.5, 0.1), (5, 0.2)),
            ),
        ),
        Panel("gowalla", "epsilon", "recall@10", (line("SRR", (0.5, 0.01), (5, 0.05)),)),
        Panel("time", "R", "time (µs)", (line("RSM", (0.01, 20_000.0), (1, 3.0), half_width=1.0),), True, True),
    ),
    columns=2,
    description='Recall "rises" <slowly>',
)  # fmt: skip

MAP = Map(
    name="city_map",
    title="A city",
    region=REGION,
    panels=(
        MapPanel("before", (MapLayer("person", "people", CITY),)),
        MapPanel(
            "after",
            (
                MapLayer("disc", "centres", CITY[:2], np.array([500.0, 2000.0])),
                MapLayer("published", "published", CITY[::-1]),
                MapLayer("account", "attacker", CITY[:1]),
            ),
        ),
    ),
    columns=2,
    description="Two maps of the city",
)

OUTCOME = ExperimentResult(
    "table 3", "Table 3: recall", "How much is left?", (TABLE,), (CHART, MAP), ("DPRS keeps most.", f"Odd: {EVIL}")
)
PLAIN = ExperimentResult("plain", "Nothing to see", "", (), (), ())
FINDINGS = (KeyFinding("Lists give people away", f"Within metres. {EVIL}", ("table 3", "elsewhere")),)
FACTS = (("Seed", "1"), ("Data", EVIL))

EXPLORATION = Exploration(
    (Axis("mean error", "mean error (m)", is_log=True), Axis("named", "people named (share)", is_reversed=True)),
    (Axis("recall@10", "recall@10 (share)"),),
    (
        Curve(
            "planar Laplace",
            ("noise of 100 m", "noise of 500 m"),
            {
                "mean error": (Mean(40, 5), Mean(400, 50)),
                "named": (Share(0.5, 0.4, 0.6), Share(0.1, 0.05, 0.2)),
                "recall@10": (Mean(0.8, 0.1), Mean(0.3, 0.1)),
            },
        ),
        Curve(
            EVIL,
            (EVIL, "epsilon = 1"),
            {
                "mean error": (Mean(30, None), Mean(300, None)),
                "named": (Share(0.25, 0.125, float("inf")), Mean(float("nan"), None)),
                "recall@10": (Mean(0.7, None), Mean(0.2, None)),
            },
            is_own=True,
        ),
    ),
)
EXPLORED = replace(PLAIN, pictures=(replace(CHART, exploration=EXPLORATION),), tables=())
