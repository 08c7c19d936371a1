"""Ways to move people: DPRS and its rivals.

`base` is what a mechanism is, `registry` the mechanisms by name. `dprs` chooses among its `releases`; `fit_pic` and
`fit_grid` find its `intervals`.
"""
