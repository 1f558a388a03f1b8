"""Erasure: what a lakehouse holds of a person goes for good, with evidence.

After an erasure the tables are what they would be had the person's events never come. The events leave the
change log; current table and history follow by the ordinary rules; then the files that held them go.
"""
