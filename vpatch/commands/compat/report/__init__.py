"""The result as text, Markdown and SARIF."""
