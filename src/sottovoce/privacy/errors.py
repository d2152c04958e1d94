"""The errors a user can meet: what was wrong, what was got, what to do."""


class SottovoceError(Exception):
    """Every error this library raises on purpose."""


class InvalidValue(SottovoceError, ValueError):
    """An argument outside its range: a negative ε, a NaN, an order below one."""


class InvalidPromise(InvalidValue):
    """A promise whose numbers make no sense, or text that is no promise."""


class NotInstalled(ModuleNotFoundError, InvalidValue):
    """What was asked for needs a package that an extra brings; `name` is the package."""


class InvalidData(SottovoceError, ValueError):
    """Records that cannot be read: the wrong type, a missing value, the wrong number of them."""


class IncompatibleNotions(SottovoceError, TypeError):
    """Two kinds of privacy that do not add up to one statement."""


class PromiseUnreachable(SottovoceError, ValueError):
    """No setting of the mechanism keeps the promise asked for."""


class UnprovenPrivacy(SottovoceError):
    """The claim rests on something nobody checked, such as the convergence of a Markov chain."""


class BudgetExceeded(SottovoceError):
    """The budget does not cover this release; nothing was spent and no data was read."""


class LedgerUnavailable(SottovoceError):
    """The ledger cannot be opened, locked or written; nothing was spent and no data was read."""


class LedgerCorrupt(SottovoceError):
    """The ledger was altered, truncated or damaged; no release is made on it."""


class SourceUnavailable(SottovoceError):
    """The records cannot be reached: a file is gone, a database is down; nothing was spent and no data was read."""


class SourceLost(InvalidData):
    """The records went away after they were paid for and before anything of them was read: the answer can be had."""
