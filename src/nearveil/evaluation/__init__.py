"""Experiments: what attacks find, what protection costs those who use the service, and the paper again.

`paper` is the paper as it is printed. `study` turns a grid of settings into rows of runs, and `studies` has the tables
and figures made that way. `attack` and `attack_experiment` attack a population, `plan` chooses a mechanism for it.
"""
