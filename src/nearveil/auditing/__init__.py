"""Audits: a mechanism and what it is said to promise in, a verdict with a witness out.

`nearveil.auditing.auditor.audit` is the module to read first. What is learned from all users together has an audit of
its own (`audit_fit`), a witness can be checked on fresh samples (`check_witness`), and `certify` computes what an audit
only bounds from below.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
