"""Families of defences: names, members, and which are sound."""

from nearveil.evaluation.families import all_families, sound_families


def test_families_are_told_apart_and_their_ends_kept() -> None:
    families = all_families()
    assert len({family.label for family in families}) == len(families)
    assert {family.label for family in sound_families()} <= {family.label for family in families if family.sound}
    assert not any(family.sound for family in families if family.label.startswith("paper"))
    for family in families:
        assert all(member.label == family.label for member in family.members)
        thin = family.thinned(3)
        assert (thin.members[0], thin.members[-1]) == (family.members[0], family.members[-1])
        assert set(thin.members) <= set(family.members)
        assert len(thin.members) == 3
        assert family.inner().members == family.members[1:-1]
