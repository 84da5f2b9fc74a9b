"""The third set: code as it comes from users' repositories, again written without a look at the verdicts' code."""
