"""Configuration that ships with the package."""
