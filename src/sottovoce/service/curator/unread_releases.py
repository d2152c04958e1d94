"""Releases that were paid for and left unread by a source that went away: made later, free."""

from __future__ import annotations

from collections.abc import Mapping

from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Derived
from sottovoce.service.answers.replayed_answer import entry_of
from sottovoce.service.curator.release_pipeline import ReleasePipeline
from sottovoce.service.curator.release_stages import Paid, RecordedRelease
from sottovoce.service.ledger.hash_chain import canonical


class UnreadReleases(ReleasePipeline):
    """How a `Curator` finishes what it left unread."""

    def finished(self, entry: int) -> RecordedRelease:
        """Make the release of an entry that was paid for, and under which the records went away unread; free.

        It is the one release that was charged: nothing of it was seen, and the data are the version it was charged for.

        Raises
        ------
        InvalidValue
            If the entry is under way, has ended, or is about another version of the data.
        SourceUnavailable
            If the records are still out of reach; it can be finished later.
        """
        mine = [item for item in self._ledger.budgets() if self.budget.id in (item.id, item.whole)]
        known, budget = entry_of(self._ledger, entry, mine)
        if not known.unread:
            raise InvalidValue(f"entry {entry} is {known.state}, and not left unread by a source that went away")
        self.ensure_available()
        asked = dict(known.request)
        if asked.get("data") != self._stamp:
            raise InvalidValue(f"entry {entry} is about another version of the data, and stays spent; ask anew")
        self._check_derived(entry, asked["mechanism"])
        options = {name: asked.pop(name, None) for name in ("where", "missing", "purpose")}
        mechanism, column = Mechanism.from_dict(asked.pop("mechanism")), asked.pop("column", None)
        options |= {"draws": asked.pop("draws", 1), "accept_unproven": True}
        asked.pop("data", None)
        part = None if budget.id == self.budget.id else budget
        priced = self.price(mechanism, column, **options, part=part, about=asked)
        paid = Paid(self._ledger.resume(budget, entry, priced.charge, who=self.who), priced)
        with self._closing(paid.reservation):
            built = self.make_all([paid])[0]
        return self.record(built)

    def _check_derived(self, entry: int, mechanism: Mapping[str, object]) -> None:
        """Refuse to finish a question of columns that are derived otherwise now, by the facts that its entry notes."""
        system = mechanism.get("system")
        noted = system.get("facts") if isinstance(system, Mapping) else None
        if self.facts is None or not noted or all(fact["kind"] != Derived.word for fact in noted.values()):
            return
        now = self.facts.to_dict()
        if changed := [name for name, fact in noted.items() if name in now and canonical(now[name]) != canonical(fact)]:
            raise InvalidValue(
                f"entry {entry} was asked where the facts said otherwise of {', '.join(changed)}, and is about a "
                "derived column: open the data with the facts as they were, and finish it"
            )
