"""What finished runs say: a table for the terminal, and one self-contained page."""

from covey.report.page import write_page
from covey.report.record import Group, Record, grouped
from covey.report.table import comparison, summary_table, table

__all__ = ["Group", "Record", "comparison", "grouped", "summary_table", "table", "write_page"]
