"""One module for each table and figure of the paper, and for each experiment that it lacks.

Every module has the same two functions: ``cells`` says what must be measured, ``outcome`` what came out.
"""
