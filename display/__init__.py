"""Shows constraints, changes and rules in notebooks, as tables, data frames and plots; and makes texts safe to print.

    listing.py      a list that notebooks show as a table, with a method that returns a data frame
    html.py         the only module that writes HTML; it escapes all texts
    witness.py      rows that prove a change or a violation, side by side
    constraints.py  constraints, and ranked constraints
    short_forms.py  constraints as people write them, and the words for their kinds
    near.py         near constraints and their changes
    changes.py      constraints that appeared and disappeared, with reasons and proofs
    verdicts.py     rules with their violations
    texts.py        numbers with nouns, columns of cells, and texts without control characters
    secrets.py      masks secrets in texts
    plots.py        plots, by matplotlib if it is installed

Invariant: each list is a `list` of its values, so that no value depends on being shown.
"""
