"""The report of finished runs: HTML page, terminal, Markdown, CSV, and figures.

`write_report` writes the page; `tailmask.report.charts` has the single figures.
"""

from __future__ import annotations

from tailmask.report.html_page import write_report

__all__ = ["write_report"]
