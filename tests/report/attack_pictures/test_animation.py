"""The name of a file tells the kind of animation."""

from pathlib import Path

import pytest

from nearveil.errors import UsageError
from nearveil.report.attack_gif import animation_kind


@pytest.mark.parametrize(("name", "kind"), [("a.gif", "gif"), ("b.HTML", "html"), ("c.d.html", "html")])
def test_the_name_tells_the_kind(name: str, kind: str) -> None:
    assert animation_kind(Path(name)) == kind


@pytest.mark.parametrize("name", ["a.mp4", "gif", "a", "a.htm"])
def test_other_names_are_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(UsageError, match=r"end it in \.gif or \.html$"):
        animation_kind(Path("folder") / name)
