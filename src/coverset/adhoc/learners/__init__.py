"""Learners, one file each; `coverset.adhoc.learner` has their interface."""
