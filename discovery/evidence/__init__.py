"""Evidences of pairs of rows: collected, sampled, kept as a certificate, and converted to constraints."""
