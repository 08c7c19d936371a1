"""The ``nearveil`` command: one module per verb."""
