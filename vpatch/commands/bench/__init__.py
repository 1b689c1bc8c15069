"""`vpatch bench`: speed under load: cells, loads, measurements, comparison, reports."""
