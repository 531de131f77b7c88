"""The searches of `holdfast discover`: constraints that hold, constraints that nearly hold, inclusions.

request.py     the arguments of the command, and the search that they ask for
contract.py    what every search does, and how a constraint is written
exact.py       constraints that hold on each file
one_list.py    near constraints and denial constraints of each file, ranked together
near.py        constraints that nearly hold on each file, with their exceptions
inclusion.py   inclusion dependencies across all files
"""
