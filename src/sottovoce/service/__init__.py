"""The door to a table: the ledger of a budget, the curator who keeps it, and its answers."""
