"""What the output tables say, for people: read by delta-rs, served on this machine or written as one file.

    reading/      the output tables, and what the views show of them, as plain values
    answers.py    the questions that a page asks, each with its checked parameters
    serving.py    the page and the answers over HTTP, and who may ask
    reporting.py  the page and some answers as one file
    page/         HTML, CSS and ES modules, as they are written

Invariant: values of the data leave here as JSON alone; the page shows them as text and nothing else.
"""
