"""Planning: a mechanism and its parameters for given people and a goal."""
