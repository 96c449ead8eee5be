"""Certificates: exact returns, best responses and constraints of a population in a finite game."""
