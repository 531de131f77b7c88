"""Constraints that nearly hold, kept exact as rows come and go.

border       contexts that are not near, each with how many exceptions it has at least
counting     exceptions of candidates on the rows as they are now
maintainer   members, counted with every batch, and the border: when to count it anew, and when to search
"""
