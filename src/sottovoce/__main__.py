"""`python -m sottovoce`: the command line."""

from sottovoce.cli import main

if __name__ == "__main__":
    main()
