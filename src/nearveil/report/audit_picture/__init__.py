"""The picture of an audit: what two places publish, the border between them, the event, and how often it came."""

from nearveil.report.audit_picture.picture import draw_audit

__all__ = ["draw_audit"]
