"""Audit: attacks on our own promises, and lower bounds on what they find."""

from __future__ import annotations

from sottovoce.audit.check_mechanism import check_mechanism
from sottovoce.audit.check_reading import check_reading
from sottovoce.audit.engine import audit
from sottovoce.audit.report import AuditReport, Band, Bound, Verdict
from sottovoce.audit.subject import Subject, claim_of, subject_of
from sottovoce.privacy.pure import ApproxProfile
from sottovoce.privacy.risk import trade_off

__all__ = [
    "ApproxProfile",
    "AuditReport",
    "Band",
    "Bound",
    "Subject",
    "Verdict",
    "audit",
    "check_mechanism",
    "check_reading",
    "claim_of",
    "subject_of",
    "trade_off",
]
