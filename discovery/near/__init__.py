"""Constraints that nearly hold on a table: keys, constants and order compatibilities with few exceptions.

rows           a table's rows as codes, in random order
targets        the targets of constraints, as sets of bits
counting       exceptions of all targets of one context, from its groups
lattice        the complete minimal set, and its border, level by level
removal        which rows are the exceptions
chance         the probability that drawn rows have a value as often as counted
concentration  values in which the exceptions are concentrated
where          the same on named columns, with rules that hold elsewhere
ranking        scores of near constraints
discover       the discovery of all near constraints
"""
