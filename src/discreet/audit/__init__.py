"""Audits: privacy accounts compared with the behaviour of the code, with and without injected faults."""

from __future__ import annotations

from .cases import Finding
from .run import HEADER, AuditReport, audit
from .settings import audited, missing, to_audit

__all__ = ["HEADER", "AuditReport", "Finding", "audit", "audited", "missing", "to_audit"]
