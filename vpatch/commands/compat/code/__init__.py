"""Python code as vpatch reads it without running it: names, classes, signatures."""
