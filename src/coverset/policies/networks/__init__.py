"""Networks, one file per kind; `coverset.policies.network` has their interface."""
