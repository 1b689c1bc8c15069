"""The only package that speaks to GitHub, through PyGithub.

It imports PyGithub where it is used, because that takes 0.3 s. It may import `git` and `util`
alone.
"""
