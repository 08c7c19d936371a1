"""The best attacker: knows the mechanism and the population, and takes the Bayes estimate."""
