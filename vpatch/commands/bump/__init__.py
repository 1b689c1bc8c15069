"""`vpatch bump`: what a new release means for patches: verdicts, changed code, reports."""
