"""What every room may use and none owns: files written whole, tensors read safely, seeds by purpose, compiled loops.

One file each, which explains itself; no room is imported from here.
"""
