"""Benchmarks of speed and start-up, one file per measurement, all run by `coverset bench`."""
