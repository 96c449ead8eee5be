"""How fast we are and how near to what the machine can do: one file per question, all answered by `coverset bench`."""
