"""Operators of PyTorch: which ones C++ sources register, and which ones Python names on import.

It may import `util` alone.
"""
