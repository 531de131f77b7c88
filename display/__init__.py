"""What people see of constraints, changes and rules in a notebook: tables, data frames, plots.

    listing.py      a list that shows itself, and becomes a data frame
    html.py         the one place that writes HTML, and escapes whatever it is given
    witness.py      the rows that prove something, side by side
    constraints.py  constraints, and those that tell most
    near.py         constraints that nearly hold
    changes.py      what appeared and disappeared, and why
    verdicts.py     rules, and what breaks them
    texts.py        how many of what; texts without anything that a reader would obey
    plots.py        figures, by matplotlib where it is there

Invariant: what is shown is a `list` of the values it was made of, so that nothing depends on being shown.
"""
