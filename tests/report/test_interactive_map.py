"""The map of users before and after protection: users are where they are, and the file of it loads nothing."""

import re
from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from nearveil.errors import DataError
from nearveil.report import interactive_map

REGION = nv.named_region("new-york")
USERS = np.random.default_rng(1).normal([40.7, -74.0], 0.02, (300, 2))


def test_users_are_where_they_are_and_where_they_went(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before_m, after_m = (REGION.to_metres(locations) for locations in (USERS, USERS + 0.01))
    figure = nv.protection_map(USERS, USERS + 0.01, region=REGION)
    traces = {trace.name: trace for trace in figure.data}
    for name, points_m in (("before", before_m), ("after", after_m)):
        assert np.allclose(np.column_stack([traces[name].x, traces[name].y]), points_m, atol=0.01)
    lines = np.column_stack([traces["moved"].x, traces["moved"].y])[1:].reshape(-1, 3, 2)
    assert np.allclose(lines[:, :2], np.stack([before_m, after_m], axis=1), atol=0.01)
    assert np.isnan(lines[:, 2]).all()
    figure.write_html(tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", page[:4000] + page[-4000:]) == []
    monkeypatch.setattr(interactive_map, "_MOST_DOTS", 100)
    thinned = {trace.name: trace for trace in nv.protection_map(USERS, USERS + 0.01, region=REGION).data}
    assert len(thinned["before"].x) == len(thinned["after"].x) == 100
    with pytest.raises(DataError, match="300 locations before and 299 after"):
        nv.protection_map(USERS, USERS[1:], region=REGION)
