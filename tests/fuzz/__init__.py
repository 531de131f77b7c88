"""Inputs that nobody would write: every reader is given them, and answers with a value or an error of its own."""
