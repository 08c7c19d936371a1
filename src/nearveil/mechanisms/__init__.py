"""Ways to move people: DPRS and its rivals."""
