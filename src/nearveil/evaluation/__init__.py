"""Experiments: what attacks find, and what protection costs those who use the service.

`attack` simulates a service and attacks it (`nearveil.attack`), `attack_experiment` repeats that for tables. `utility`
is what lists keep, `best_attacker` what the best guess finds, `defences` are the mechanisms by the names of
experiments. `cells` are the single measurements, which `runner` computes and stores and `experiments/` turns into
tables and figures. `plan.py` chooses a mechanism for given users (`nearveil.plan`).
"""
