"""Tests mirror the package. `typechecked` is their run-time type checker: whole numbers are welcome as numbers."""

from beartype import BeartypeConf, beartype

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))
