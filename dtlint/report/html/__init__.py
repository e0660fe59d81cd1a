"""The plan as a page: one file that needs no network, with pictures as inline SVG."""

from __future__ import annotations

from dtlint.report.html.page import plans_page

__all__ = ["plans_page"]
