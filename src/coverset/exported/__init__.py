"""Exported agents: zip files with compiled programs, their checks, and the policies loaded from them."""
