"""Constraints that nearly hold on a table as it stands: keys, constants and order compatibilities with few exceptions.

rows         a table's rows as codes, in random order
targets      what constraints are about, as sets of bits
counting     exceptions of all targets of one context, from its groups
lattice      the complete minimal set, and its border, level by level
removal      which rows are the exceptions
ranking      how much a near constraint tells a person
discover     all of it: the job that people ask for
"""
