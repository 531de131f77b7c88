"""Constraints that nearly hold, kept exact as rows come and go.

border            contexts that are not near, each with how many exceptions it has at least
counts            what is asked of the rows: exceptions of candidates, with every batch and now and then
counting          its answers where rows are in memory
counting_blocks   its answers where rows are in blocks
maintainer        members, counted with every batch, and the border: when to count it anew, and when to search
changes           what a batch did to them
"""
