"""Tables and pages. Reads result JSON only."""
