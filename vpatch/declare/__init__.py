"""What people write in YAML and TOML, as strict pydantic models with line numbers.

It may import `util` alone.
"""
