"""Constraints that nearly hold, kept exact as rows are inserted and deleted.

border            the largest contexts in which targets are not near, each with a lower bound of its exceptions
counts            the contract of a counter of exceptions
counting          the counter of rows in memory
counting_blocks   the counter of rows in blocks
maintainer        members, counted with every batch, and the border: when to count it anew, and when to search
shown             the rows that are shown as exceptions
suspects          the cells that are probably wrong, searched again after several batches
changes           the changes of one batch
"""
