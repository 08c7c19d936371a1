"""From somebody's people and a wish to a mechanism with its parameters: measured on those people, not promised."""
