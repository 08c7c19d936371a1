"""Captions say what was asked and answered, and nothing that the list did not say."""

from dataclasses import replace

from nearveil.report.attack_scene import Scene, frames_of, heading, summary, verdict
from tests.report.attack_pictures.samples import protected

HERE, AT_100_M, AT_500_M = (412.0, 0.0), (512.0, 0.0), (912.0, 0.0)


def plain(words: str) -> str:
    return words.replace("\N{NO-BREAK SPACE}", " ")


def test_a_miss_is_never_called_found(gi_lia: Scene, adaptive: Scene) -> None:
    """What the attacker finds in a protected service is the published place."""
    missed = "published place found, person missed by 500 m"
    assert plain(verdict(protected(gi_lia))) == missed
    assert plain(heading(protected(gi_lia), "One attack")) == f"One attack: {missed}"
    result = plain(frames_of(protected(gi_lia))[-1].text)
    assert result.startswith(f"Result: {missed}. The estimate is 500 m from the person and ")
    for words in (summary(protected(gi_lia)), summary(protected(adaptive))):
        assert "found" not in words
    assert verdict(gi_lia) == "person found"
    far = replace(gi_lia, result=replace(gi_lia.result, estimate=(gi_lia.truth[0] + 300, gi_lia.truth[1])))
    assert plain(verdict(far)) == "person missed by 300 m"
    assert plain(verdict(replace(far, published=gi_lia.truth))).startswith(
        "published place missed by 300 m, person missed"
    )
    assert verdict(replace(gi_lia, published=gi_lia.truth)) == "published place found, person found"
