"""Stage 2, bases: a base of the matrix in, a locked image in the engine and the registry out.

``state`` reads what is asked for and what is locked, ``make`` (slim) and ``cuda`` make images,
``provision`` decides whether a base is used, pulled or made, and ``facts`` tells the gate what is
inside.
"""
