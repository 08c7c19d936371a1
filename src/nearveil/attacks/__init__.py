"""Attacks: they find people through what a service answers, and touch nothing but an oracle.

`oracle` is all an attacker can ask, `answers` what services answer, `base` what an attack is and returns,
`registry` the attacks by name. `bayes` is the best guess from what a mechanism publishes, `matching` that of everybody
at once, `scores` how good they are.
`nearveil.attack` runs them (`nearveil.evaluation.attack`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
