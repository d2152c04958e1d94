"""Command line, server, client and estimators: thin views of the curator."""
