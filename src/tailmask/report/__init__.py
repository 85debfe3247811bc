"""Figures and the page: from finished runs to something to look at and to send to a colleague.

`write_report` makes the page; `tailmask.report.charts` has the figures by themselves.
"""

from __future__ import annotations

from tailmask.report.html_page import write_report

__all__ = ["write_report"]
