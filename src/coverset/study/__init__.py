"""Studies: units of work, their planning, the engines that run them, and the commands `reproduce` and `tune`."""
