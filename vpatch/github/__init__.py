"""The only package that speaks to GitHub, through PyGithub.

It imports PyGithub where it is used: that takes 0.3 s.
"""
