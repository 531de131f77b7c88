"""A configuration file as typed values: its text, its settings, the checks between them, declared rules, secrets."""
