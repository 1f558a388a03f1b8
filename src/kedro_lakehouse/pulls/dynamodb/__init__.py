"""Tables of Amazon DynamoDB: scanned to their last page, and landed as plain JSON."""
