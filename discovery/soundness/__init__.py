"""Whether constraints say something about the data, or hold by chance.

measured    what the constraints of a table are measured on: rows drawn by lot, and all rows
questions   how often pairs of rows that satisfy some predicates satisfy one more
sampled     answers from sampled pairs, with their errors
exact       answers counted on all rows
strength    the strength and the support that follow from the answers
"""
