"""Teammate generation methods, one file each; `coverset.teammates.method` has their interface."""
