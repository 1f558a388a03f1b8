"""Documents of BSON: raw bytes become rows with the types of their fields."""
