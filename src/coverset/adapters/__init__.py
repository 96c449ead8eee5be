"""Bridges to what others have written: their environments, policies and loggers. Each is imported on use."""
