"""REST sources: records that an API answers with, page after page; their own bytes land as JSON lines."""
