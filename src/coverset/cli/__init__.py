"""The command-line interface: one module per command, which parses options, calls the library and prints."""
