"""Write the year's curves that are shipped: ``python -m deploy.year_file FOLDER/year.csv``.

The file is a result of ``nearveil reproduce year --out FOLDER``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from nearveil.evaluation import year_curve
from nearveil.evaluation.studies import year
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import WHOLE_EARTH


def shipped(runs: pd.DataFrame) -> dict[str, Any]:
    """Return what is shipped, from all runs of the part ``year``: a service with the defaults, and bad fixes."""
    runs = runs[(runs.service == year.USUAL) & (runs.gps == "bad")]
    curves = []
    for (users, attacker), group in year.found_by_months(runs).groupby(["users", "attacker"], sort=False):
        found = [{end: round(getattr(share, end), 4) for end in ("value", "low", "high")} for share in group.found]
        people, months = int(group.people.iloc[0]), group.months.tolist()
        curves.append({"person": users, "attacker": attacker, "people": people, "months": months, "found": found})
    return year_curve.year_chart(Protection(region=WHOLE_EARTH)) | {"curves": curves}


if __name__ == "__main__":
    text = json.dumps(shipped(pd.read_csv(sys.argv[1])), separators=(",", ":")).replace('{"person"', '\n{"person"')
    Path(year_curve.__file__).with_name("year.json").write_text(f"{text}\n", encoding="utf-8")
