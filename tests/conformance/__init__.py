"""The published cases of the contract, run through the plain model and through real runs on Spark."""
