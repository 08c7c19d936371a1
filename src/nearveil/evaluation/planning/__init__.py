"""From somebody's people and a goal to a mechanism with its parameters: measured on those people, not promised."""
