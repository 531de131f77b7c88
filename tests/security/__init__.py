"""What others on the machine, and whoever reads what is written, never see; and what data never reach."""
