"""Sets of healthy models and of bugs that judge the checks: ``python -m evaluation SET`` prints one table.

A set is a package of this folder with ``CASES`` (bugs and their fixed versions) and ``HEALTHY`` (models without a bug).
Its README states when it was written, under which rule, and whether it is frozen or used for development.
"""
