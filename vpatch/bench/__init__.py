"""Servers under load: what they make of it, and whether a difference is one."""
