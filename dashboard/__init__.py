"""The dashboard: the output tables as a page, served on this machine or written as one file.

    reading/      reads the output tables with delta-rs, and returns the content of each view as plain values
    answers.py    the questions of the page, with their parameters checked
    serving.py    the page and the answers over HTTP, with access control
    reporting.py  the page with answers as one file
    page/         HTML, CSS and ES modules

Invariant: values of the data are sent as JSON alone; the page shows them as text and nothing else.
"""
