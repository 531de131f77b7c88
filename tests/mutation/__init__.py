"""Mutation tests: small defects put into copies of the core, which the tests have to find."""
