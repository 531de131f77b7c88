"""Declared rules on whole tables: how many pairs and rows break each rule, and which [FACET].

forms        a rule as conditions on rows: column pairs with allowed outcomes, tests of single rows, values
conditions   which rows pass tests of single rows
columns      the columns of a table as codes that compare, computed once for all rules
grouping     rows by their equalities, prefixes shared among rules
counting     exact counts without listing pairs
sweeping     exact counts for one or two inequalities
listing      the pairs, in compressed groups, expanded in chunks
examples     a few pairs
partners     the number of partners of a row by each rule, for rows that change
check        the check of all rules
"""
