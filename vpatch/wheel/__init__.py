"""A patched vLLM without an image: as a wheel, or laid into an environment.

It may import `image`, `security`, `checkout`, `engine` and what lies below them.
"""
