"""Customers with their orders, kept up to date from a database."""
