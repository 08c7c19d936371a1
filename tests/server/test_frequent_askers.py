"""Who asked much is known by numbers alone."""

from nearveil.server.frequent_askers import EPOCHS_REMEMBERED, MANY_QUESTIONS, FrequentAsker, FrequentAskers


def test_who_asks_much_is_listed_when_the_epoch_has_ended() -> None:
    askers = FrequentAskers()
    askers.begin_epoch(7)
    for person, questions in (("eve", MANY_QUESTIONS + 1), ("mal", MANY_QUESTIONS), ("ann", MANY_QUESTIONS - 1)):
        for _ in range(questions):
            askers.count(person)
    # An epoch that is loaded again, because something was missed, has not ended.
    askers.begin_epoch(7)
    assert (askers.listed(), askers.epochs) == ([], 0)
    askers.begin_epoch(8)
    eve, mal = FrequentAsker("eve", 1, MANY_QUESTIONS + 1), FrequentAsker("mal", 1, MANY_QUESTIONS)
    assert askers.listed() == [eve, mal]
    # Epochs are counted apart: questions of two are not added up until somebody asks much in one.
    askers.count("ann")
    for _ in range(2 * MANY_QUESTIONS):
        askers.count("mal")
    askers.begin_epoch(9)
    assert askers.listed() == [FrequentAsker("mal", 2, 3 * MANY_QUESTIONS), eve]
    askers.forget("mal")
    assert askers.listed() == [eve]
    for epoch in range(10, 10 + EPOCHS_REMEMBERED):
        askers.begin_epoch(epoch)
    assert (askers.listed(), askers.epochs) == ([], EPOCHS_REMEMBERED)
