"""Declared rules on tables as they stand: how many pairs and rows break each, and which [FACET].

forms        a rule as what it asks of rows: column pairs with allowed outcomes, tests of single rows, values
conditions   which rows pass tests of single rows
columns      a table's columns as codes that compare, each made once for all rules
grouping     rows by their equalities, prefixes shared among rules
counting     exact counts without listing a pair
sweeping     those of one or two inequalities
listing      the pairs, in compressed groups, expanded in chunks
examples     a few of them
partners     with how many rows a row breaks a rule, for rows that change
check        all of it: the job that people ask for
"""
