"""What people bring to `vpatch import`: files, pull requests, trees, scripts, plugins."""
