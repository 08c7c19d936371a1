"""Clients of a running service (`Client`, `AsyncClient`), and the audit of one's own service through its interface."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
