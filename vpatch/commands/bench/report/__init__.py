"""What people read of a bench: tables, plots, a page."""
