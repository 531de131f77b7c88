"""The parts of the commands on live tables: opening a state, seeding, evolution, sources, outputs, figures."""
