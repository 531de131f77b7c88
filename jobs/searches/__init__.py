"""The searches of `holdfast discover`: constraints that hold, constraints that nearly hold, inclusions.

request.py       the arguments of the command, and the search that they ask for
contract.py      what every search does, and how a constraint is written
exact.py         constraints of one family that hold on each file
near.py          constraints that nearly hold on each file, with their exceptions
inclusion.py     inclusion dependencies across all files
foreign_keys.py  likely foreign keys across all files
one_list.py      constraints of several families of all files, ranked together
one_table.py     constraints of several families of one file
stated.py        which of these others state
bounds.py        how far a search for all families goes
"""
