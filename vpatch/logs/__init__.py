"""Logs of vLLM: their format, the symptoms that patches declare, and known causes of errors.

It may import `library` and what lies below it.
"""
