"""The study engine that runs units on a Ray cluster."""
