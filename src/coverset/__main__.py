"""The program `coverset`, also as `python -m coverset`."""

from coverset.cli.interrupts import leave_on_signals


def main() -> None:
    """Import the command line and enter it."""
    with leave_on_signals():
        from coverset.cli.main import main as enter
    enter()


if __name__ == "__main__":
    main()
