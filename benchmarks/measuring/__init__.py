"""How things are measured, and how what was found is told."""
