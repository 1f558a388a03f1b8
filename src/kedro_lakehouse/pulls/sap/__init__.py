"""SAP: tables that RFC_READ_TABLE reads, by their keys, since it gives rows in no order."""
