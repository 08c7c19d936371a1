"""What a user can do, seen from outside: commands, HTTP and ``import nearveil as nv``, and nothing of the inside.

These tests hold whatever the packages look like inside. They state results: numbers, files, exit codes, keys of JSON,
and what must not get out.
"""
